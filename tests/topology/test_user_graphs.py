"""Graphs read from files and made by functions, and those that are refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpeer.exceptions import TopologyError
from dpeer.topology import build, size_of, spectral_gap
from tests.error_texts import refused

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
    ],
)
def test_files_of_every_form_make_the_same_graph(written: Written, name: str, content: bytes | str) -> None:
    asked = written(name, content)
    assert size_of(asked) == 3
    graph = build(asked, 3)
    assert (graph.name, graph.size) == (f"file:{name}", 3)
    assert graph.edges == LINE
    # Its edges define it: a file of another name and form makes the same graph.
    assert graph.parameters == {"edges_sha256": build(written("other", "1 2\n0 1\n"), 3).parameters["edges_sha256"]}


def test_a_large_rank_alone_costs_no_memory(written: Written) -> None:
    asked = written("large.txt", "0 999999999\n")
    assert size_of(asked) == 10**9
    for size in (10**9, 2):
        with pytest.raises(TopologyError):
            build(asked, size)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_file_is_a_graph_or_an_error_of_one_line(written: Written, data: st.DataObject) -> None:
    content = bytearray(b"0 1\n1 2\n2 3 # x\n3 0\n")
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 20))] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"\n", b"0", b"9", b",", b"#"])
        )
    asked = written("any.txt", bytes(content))
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
    assert plain.edges == weighted.edges == [[0, 1], [0, 3], [0, 4], [1, 2], [2, 3], [4, 5], [4, 7], [5, 6], [6, 7]]
    assert (plain.name, plain.weights_rule) == ("own_graph.py:two_rings", "metropolis")
    assert weighted.weights_rule == "own"
    assert weighted.weights[0].tolist() == pytest.approx([0.0, 0.3, 0.0, 0.3, 0.4, 0.0, 0.0, 0.0], abs=1e-12)
    assert plain == build(f"{EXAMPLE}:two_rings", 8)
    assert plain.digest != weighted.digest, "weights are compared, too"
    assert 1.0 - np.linalg.svd(weighted.weights, compute_uv=False)[1] == pytest.approx(spectral_gap(weighted))


@pytest.mark.parametrize(
    ("content", "size", "fragment"),
    [
        (bytes(range(256)), 3, "not a text file"),
        ("", 3, "the graph has no edges"),
        ("0 ²\n", 3, "line 1: '0 ²'"),
        ("0 1\n\x1b[31mred 2\n", 3, "line 2: '\\x1b[31mred 2'"),
        (f"0 {'9' * 5000}\n", 3, f"line 1: '0 {'9' * 50}"),
        ("0 1\n1 1\n1 2\n", 3, "line 2: an edge joins rank 1 to itself"),
        ("0 1\n", 3, "joins 2 peers, and size is 3"),
        ("0 1\n2 3\n", 4, "the graph is not connected: 2 groups"),
    ],
)
def test_a_file_that_is_no_graph_is_refused(written: Written, content: str | bytes, size: int, fragment: str) -> None:
    name = written("graph", content)
    with refused(TopologyError, f"{name}: {fragment}"):
        build(name, size)


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("file:missing.txt", "file:missing.txt: No such file"),
        ("file:", "file:'': write the path of a file"),
    ],
)
def test_a_graph_that_is_not_there(name: str, fragment: str, in_tmp_path: Path) -> None:
    with refused(TopologyError, fragment):
        build(name, 4)


def weighted(values: str) -> str:
    return f"g = nx.path_graph(4); nx.set_edge_attributes(g, {values}, 'weight'); return g"


NAN = "nx.set_edge_attributes(g, float('nan'), 'weight')"


@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        ("return 3", "mine.py:graph: returned a int"),
        ("return nx.DiGraph([(0, 1)])", "mine.py:graph: returned a DiGraph"),
        ("return nx.Graph([(0, 0), (0, 1), (1, 2), (2, 3)])", "mine.py:graph: an edge joins rank 0 to itself"),
        ("return nx.Graph([('a', 'b')])", "mine.py:graph: node 'a'"),
        ("return nx.empty_graph(size)", "mine.py:graph: the graph has no edges"),
        ("return 1 / 0", "mine.py:graph: failed: ZeroDivisionError"),
        ("g = nx.path_graph(size); g.edges[0, 1]['weight'] = 0.5; return g", "mine.py:graph: give each edge a number"),
        (f"g = nx.path_graph(4); {NAN}; return g", "mine.py:graph: edge 0-1 has weight nan, not in [0, 1); the edge"),
        (weighted("{(0, 1): 0.5, (1, 2): 3.2, (2, 3): 0.1}"), "mine.py:graph: edge 1-2 has weight 3.2, not in [0, 1)"),
        (weighted("-0.1"), "mine.py:graph: edge 0-1 has weight -0.1, not in [0, 1); the edge attribute 'weight' is"),
        (weighted("0.6"), "mine.py:graph: the edges of rank 1 weigh 1.2 in all, more than 1; the edge attribute"),
    ],
)
def test_a_function_that_makes_no_graph_is_refused(body: str, fragment: str, in_tmp_path: Path) -> None:
    Path("mine.py").write_text(f"import networkx as nx\ndef graph(size, seed):\n    {body}\n")
    with refused(TopologyError, fragment):
        build("mine.py:graph", 4)


def test_weights_may_be_numbers_of_numpy(in_tmp_path: Path) -> None:
    Path("mine.py").write_text(
        "import networkx as nx\nimport numpy as np\ndef graph(size, seed):\n"
        "    g = nx.path_graph(size); nx.set_edge_attributes(g, np.float32(0.5), 'weight'); return g\n"
    )
    assert build("mine.py:graph", 3).weights.tolist() == [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]


def test_a_file_without_a_functions_name_is_refused(in_tmp_path: Path) -> None:
    Path("mine.py").write_text("def graph(size, seed):\n    ...\n")
    with refused(TopologyError, "topology 'mine.py' names no function"):
        build("mine.py", 4)
