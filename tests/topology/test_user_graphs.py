"""Graphs read from files: what works, and what is said of those that do not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpeer.exceptions import TopologyError
from dpeer.topology import Topology, build, size_of, spectral_gap

LINE = [[0, 1], [1, 2]]
Written = Callable[[str, bytes | str], str]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Write a file and give its topology name."""

    def write(name: str, content: bytes | str) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return f"file:{path}"

    return write


def graphml(nodes: list[object], edges: list[tuple[object, object]], direction: str = "undirected") -> str:
    inside = "".join(f'<node id="{node}"/>' for node in nodes)
    inside += "".join(f'<edge source="{one}" target="{other}"/>' for one, other in edges)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        f'<graph edgedefault="{direction}">{inside}</graph></graphml>'
    )


LINE_XML = graphml([0, 1, 2], [(0, 1), (1, 2)])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain", "0 1\n1 2\n"),
        ("unfinished.txt", "0 1\n1 2"),
        ("tabs.txt", "0\t1\n  1   2\n"),
        ("commas.csv", "0,1\n1, 2\n"),
        ("comments.txt", "# a line\n0 1 # first\n\n#\n1 2\n"),
        ("twice.txt", "0 1\n1 0\n1 2\n1 2\n2 1\n"),
        ("windows.txt", "0 1\r\n1 2\r\n"),
        ("marked.txt", b"\xef\xbb\xbf0 1\n1 2\n"),
        ("padded.txt", "00 01\n01 02\n"),
        ("line.graphml", LINE_XML),
        ("line.XML", LINE_XML),
        ("marked.graphml", b"\xef\xbb\xbf" + LINE_XML.encode()),
        ("twice.graphml", graphml([0, 1, 2], [(0, 1), (1, 0), (1, 2), (1, 2)])),
        ("unordered.graphml", graphml([2, 0, 1], [(2, 1), (1, 0)])),
    ],
)
def test_files_that_work(written: Written, name: str, content: bytes | str) -> None:
    asked = written(name, content)
    assert size_of(asked) == 3
    graph = build(asked, 3)
    assert (graph.name, graph.size) == (f"file:{name}", 3)
    assert graph.edges == LINE
    # What defines it is its edges: a file of another name and form is the same graph.
    assert graph.parameters == {"edges_sha256": build(written("other", "1 2\n0 1\n"), 3).parameters["edges_sha256"]}


ROW = "write two ranks, for example 0 1"
NAMES = "name the nodes by their ranks"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("binary", bytes(range(256)), ": not a text file"),
        ("utf16", "0 1\n1 2\n".encode("utf-16"), ": not a text file"),
        ("latin", b"# caf\xe9\n0 1\n1 2\n", ": not a text file"),
        ("empty", "", "the graph has no edges"),
        ("comments", "# nothing\n\n", "the graph has no edges"),
        ("one", "0 1\n2\n", f": line 2: '2': {ROW}"),
        ("three", "# weighted\n0 1 0.5\n", f": line 2: '0 1 0.5': {ROW}"),
        ("letters", "a b\n", f": line 1: 'a b': {ROW}"),
        ("negative", "0 1\n-1 0\n", f": line 2: '-1 0': {ROW}"),
        ("fraction", "0 1.0\n", f": line 1: '0 1.0': {ROW}"),
        ("digits", "0 ²\n", f": line 1: '0 ²': {ROW}"),
        ("zero", "0 1\x00\n", f": line 1: '0 1\\x00': {ROW}"),
        ("colored", "0 1\n\x1b[31mred 2\n", f": line 2: '\\x1b[31mred 2': {ROW}"),
        ("large", "0 1\n0 99999999999\n", f": line 2: '0 99999999999': {ROW}"),
        ("larger", f"0 {'9' * 5000}\n", ": line 1: '0 9999"),
        ("loop", "0 1\n1 1\n1 2\n", ": line 2: an edge joins rank 1 to itself"),
        ("hole", "0 1\n1 3\n", ": 3 ranks from 0 to 3: ranks count from 0"),
        ("from1", "1 2\n2 3\n", ": 3 ranks from 1 to 3: ranks count from 0"),
        ("fewer", "0 1\n", ": joins 2 peers, and size is 3"),
        ("more", "0 1\n1 2\n2 3\n", ": joins 4 peers, and size is 3"),
        ("empty.graphml", "", ": not GraphML"),
        ("broken.graphml", "<graphml><", ": not GraphML: unclosed token: line 1"),
        ("page.xml", "<html></html>", ": not GraphML"),
        ("directed.graphml", graphml([0, 1, 2], [(0, 1), (1, 2)], "directed"), "set edgedefault="),
        ("names.graphml", graphml(["a", "b"], [("a", "b")]), f": node 'a': {NAMES}"),
        ("padded.graphml", graphml(["0", "00", 1], [("0", 1), ("00", 1)]), f": node '00': {NAMES}"),
        ("large.graphml", graphml([0, "9" * 5000], [(0, "9" * 5000)]), f"9': {NAMES}"),
        ("loop.graphml", graphml([0, 1, 2], [(0, 1), (1, 2), (2, 2)]), ": an edge joins rank 2 to itself"),
        ("alone.graphml", graphml([0, 1, 2, 3], [(0, 1), (1, 2)]), ": node 3 has no edges"),
        ("nobody.graphml", graphml([], []), "the graph has no edges"),
        ("half.graphml", LINE_XML.replace(' target="1"', ""), f": node 'None': {NAMES}"),
    ],
)
def test_files_that_do_not(written: Written, name: str, content: bytes | str, expected: str) -> None:
    asked = written(name, content)
    with pytest.raises(TopologyError) as error:
        build(asked, 3)
    text = str(error.value)
    assert text.startswith(f"{asked}: ")
    assert expected in text
    assert text.isprintable()  # one line, too


def test_a_graph_in_parts_says_how_many(written: Written) -> None:
    with pytest.raises(TopologyError, match=r"parts\.txt: the graph is not connected: 2 groups"):
        build(written("parts.txt", "0 1\n2 3\n"), 4)


def test_a_large_rank_alone_costs_no_memory(written: Written) -> None:
    asked = written("large.txt", "0 999999999\n")
    assert size_of(asked) == 10**9
    with pytest.raises(TopologyError, match="size 1000000000: graphs are built of at most 1,000,000 peers"):
        build(asked, 10**9)
    with pytest.raises(TopologyError, match="2 ranks from 0 to 999999999: ranks count from 0"):
        build(asked, 2)


@pytest.mark.parametrize("ask", [size_of, lambda name: build(name, 3)])
def test_files_that_are_not_there(tmp_path: Path, ask: Callable[[str], object]) -> None:
    for name, expected in (
        (f"file:{tmp_path}/missing.txt", "missing.txt: No such file"),
        (f"file:{tmp_path}", ": Is a directory"),
        ("file:", "write the path of a file"),
        ("file:\0", "write the path of a file"),
    ):
        with pytest.raises(TopologyError) as error:
            ask(name)
        assert expected in str(error.value)
        assert str(error.value).isprintable()


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_in_a_file_is_a_graph_or_one_line(written: Written, data: st.DataObject) -> None:
    ending, text = data.draw(st.sampled_from([(".txt", "0 1\n1 2\n2 3 # x\n3 0\n"), (".graphml", LINE_XML)]))
    content = bytearray(text.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 20))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"\n", b"0", b"9", b",", b"#", b'"', b"<", b"/>", b"&a;", b"id"])
        )
    asked = written(f"any{ending}", bytes(content))
    expected = ""
    try:
        assert build(asked, size_of(asked)).size >= 2
    except TopologyError as error:
        expected = str(error)
    assert expected == "" or expected.startswith(asked)
    assert expected.isprintable()


EXAMPLE = Path(__file__).parents[2] / "examples" / "own_graph.py"


def test_a_function_gives_the_edges_and_perhaps_the_weights() -> None:
    plain, weighted = (build(f"{EXAMPLE}:{name}", 8) for name in ("two_rings", "weighted"))
    assert isinstance(plain, Topology)
    assert isinstance(weighted, Topology)
    assert plain.edges == weighted.edges == [[0, 1], [0, 3], [0, 4], [1, 2], [2, 3], [4, 5], [4, 7], [5, 6], [6, 7]]
    assert (plain.name, plain.weights_rule) == ("own_graph.py:two_rings", "metropolis")
    assert weighted.weights_rule == "own"
    assert weighted.weights[0].tolist() == pytest.approx([0.0, 0.3, 0.0, 0.3, 0.4, 0.0, 0.0, 0.0], abs=1e-12)
    assert plain == build(f"{EXAMPLE}:two_rings", 8)
    assert plain.digest != weighted.digest, "weights are compared, too"
    assert 1.0 - np.linalg.svd(weighted.weights, compute_uv=False)[1] == pytest.approx(spectral_gap(weighted))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 3", "returned a int; it must return an undirected networkx.Graph"),
        ("return nx.DiGraph([(0, 1)])", "returned a DiGraph"),
        ("return nx.Graph([(0, 1), (1, 2)])", "joins 3 peers, and size is 4"),
        ("return nx.Graph([(0, 1), (2, 3)])", "not connected: 2 groups"),
        ("return nx.Graph([(0, 0), (0, 1), (1, 2), (2, 3)])", "an edge joins rank 0 to itself"),
        ("return nx.Graph([('a', 'b')])", "node 'a': name the nodes by their ranks, 0 to 3"),
        ("return nx.empty_graph(size)", "the graph has no edges"),
        ("return 1 / 0", "failed: ZeroDivisionError"),
        (
            "g = nx.path_graph(size); g.edges[0, 1]['weight'] = 0.5; return g",
            "give each edge a number as its weight",
        ),
        ("g = nx.path_graph(size); nx.set_edge_attributes(g, 0.6, 'weight'); return g", "-0.2 is negative"),
        ("g = nx.path_graph(size); nx.set_edge_attributes(g, float('nan'), 'weight'); return g", "each edge a number"),
    ],
)
def test_what_a_function_must_not_give(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"import networkx as nx\ndef graph(size, seed):\n    {body}\n")
    with pytest.raises(TopologyError, match=message):
        build(f"{path}:graph", 4)


def test_a_function_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def graph(size, seed): ...\n")
    with pytest.raises(TopologyError, match=r"names no function; write '.*mine.py:graph'"):
        build(f"{tmp_path / 'mine.py'}", 4)
    with pytest.raises(TopologyError, match=r"has no 'grahp': did you mean 'graph'\?"):
        build(f"{tmp_path / 'mine.py'}:grahp", 4)
    with pytest.raises(TopologyError, match="no such file"):
        build("nowhere/mine.py:graph", 4)
