"""`dpeer topology plot`: the picture, and what is said where there can be none."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from dpeer.report.graph_drawing import place, segments
from dpeer.report.topology_plot import BOTTOM, measure, picture
from dpeer.topology import TOPOLOGIES, Topology, build

Command = Callable[..., Any]

BRIEF = ("--topology", "ring,grid,one-peer-exponential,full", "--size", "8")


def texts(path: Path) -> list[str]:
    """Every text in an SVG."""
    root = ElementTree.fromstring(path.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.slow
def test_a_png_is_written_and_said(dpeer: Command) -> None:
    ended = dpeer("topology", "plot", *BRIEF)
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(r"topology\.png: 4 graphs of 8 peers, their spectra and \d+ rounds of gossip\n", ended.out)
    assert Path("topology.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with Image.open("topology.png") as image:
        image.load()
        assert image.format == "PNG"
        assert 1000 <= image.width <= 4000
        assert 1000 <= image.height <= 4000
        assert len(image.convert("RGB").getcolors(1 << 20) or []) > 100


@pytest.mark.slow
def test_an_svg_has_names_labels_and_gaps_as_text(dpeer: Command) -> None:
    assert dpeer("topology", "plot", *BRIEF, "--out", "a.SVG").code == 0
    found = texts(Path("a.SVG"))
    assert {"ring", "grid", "one-peer-exponential", "full"} <= set(found)
    assert {"singular value, from the largest", "rounds of gossip", "messages sent per peer (mean)", "1e-3"} <= set(
        found
    )
    assert "8 peers, metropolis weights (uniform where directed)" in found
    assert "ring: gap 0.1953, 2 messages a round, 1e-3 after 32 rounds" in found
    assert "one-peer-exponential: gap 1.0000 of 3 rounds, 1 message a round, 1e-3 after 3 rounds" in found
    assert "exactly the average from here on" in found
    assert "rounds 0-2, then again from 0" in found


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_same_graphs_give_the_same_bytes(suffix: str) -> None:
    asked = [build(name, 12) for name in ("torus", "random-matching", "erdos-renyi")]
    first, second = picture(measure(asked, None), suffix), picture(measure(asked, None), suffix)
    assert first == second
    assert b"<dc:date>" not in first
    assert b"tIME" not in first


@pytest.mark.slow
@pytest.mark.parametrize("names", [TOPOLOGIES[:8], TOPOLOGIES[8:]])
def test_every_graph_is_drawn(dpeer: Command, names: tuple[str, ...]) -> None:
    assert dpeer("topology", "plot", "--topology", ",".join(names), "--size", "16", "--out", "a.svg").code == 0
    assert set(names) <= set(texts(Path("a.svg")))


@pytest.mark.slow
def test_a_hundred_peers(dpeer: Command) -> None:
    names = "ring,grid,exponential,exponential-directed,one-peer-exponential,random-matching,star,full"
    assert dpeer("topology", "plot", "--topology", names, "--size", "100", "--out", "a.svg").code == 0
    found = texts(Path("a.svg"))
    assert {"4,950 edges", "700 directed edges"} <= set(found)
    assert "rounds 0-3, drawn anew in every round" in found
    assert "99" not in found  # peers are not numbered


@pytest.mark.slow
def test_very_many_edges_are_not_all_drawn(dpeer: Command) -> None:
    assert dpeer("topology", "plot", "--topology", "full", "--size", "300", "--out", "a.svg").code == 0
    assert "44,850 edges, 20,000 of them drawn at random" in texts(Path("a.svg"))
    assert Path("a.svg").stat().st_size < 2_000_000


@pytest.mark.slow
def test_options_reach_the_graph(dpeer: Command) -> None:
    command = (
        "topology",
        "plot",
        "--topology",
        "grid",
        "--grid-shape",
        "4x2",
        "--fresh-neighbors",
        "3",
        "--rounds",
        "7",
    )
    ended = dpeer(*command, "--size", "8", "--weights", "metropolis", "--graph-seed", "5", "--out", "a.svg")
    assert ended.out == "a.svg: 2 graphs of 8 peers, their spectra and 7 rounds of gossip\n"
    assert {"4 x 2", "fresh neighbors 3, graph seed 5"} <= set(texts(Path("a.svg")))


@pytest.mark.slow
def test_a_name_given_twice_is_drawn_once(dpeer: Command) -> None:
    assert dpeer("topology", "plot", "--topology", "ring,full,ring").out.startswith("topology.png: 2 graphs of 8 ")


@pytest.mark.slow
def test_a_graph_from_a_file(dpeer: Command, in_tmp_path: Path) -> None:
    name = "a$very$long name of a file 图 that reaches far.txt"
    (in_tmp_path / name).write_text("0 1\n1 2\n2 3\n3 0\n3 4\n")
    ended = dpeer("topology", "plot", "--topology", f"file:{name}", "--out", "a.svg")
    assert ended.out == "a.svg: 1 graph of 5 peers, its spectrum and 35 rounds of gossip\n"
    assert "file:a$very$long name of a …" in texts(in_tmp_path / "a.svg")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "a.pdf"], "--out 'a.pdf': name a file that ends in .png or .svg"),
        (["--out", "a"], "--out 'a': name a file that ends in .png or .svg"),
        (["--out", "no/such/a.png"], "--out 'no/such/a.png': no such folder: 'no/such'"),
        (["--out", "folder.png"], "--out 'folder.png' cannot be written: Is a directory"),
        (["--topology", ",".join(["ring"] * 13)], "--topology: 13 graphs; a picture shows at most 12"),
        (["--size", "1001"], "--size 1001: pictures are drawn of at most 1000 peers; `dpeer topology spectral-gap` "),
        (["--size", "0"], "size 0: a topology joins at least 2 peers"),
        (["--size", "8,16"], "--size '8,16': write one whole number, for example 8"),
        (["--rounds", "0"], "Invalid value for '--rounds': 0 is not in the range 1<=x<=100000."),
        (["--topology", "rng"], "unknown topology 'rng': did you mean 'ring'?"),
        (["--topology", "file:5.txt,ring"], "file:5.txt has 3 peers and ring 8: a picture shows graphs of one size"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_said_in_a_line(
    dpeer: Command, in_tmp_path: Path, arguments: list[str], message: str
) -> None:
    (in_tmp_path / "folder.png").mkdir()
    (in_tmp_path / "5.txt").write_text("0 1\n1 2\n")
    ended = dpeer("topology", "plot", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"dpeer: {message}")
    assert ended.err.count("\n") == 1
    assert not (in_tmp_path / "topology.png").exists()


def test_without_matplotlib_the_extra_is_named(dpeer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = dpeer("topology", "plot")
    assert (ended.code, ended.err) == (2, "dpeer: dpeer topology plot needs matplotlib: pip install 'dpeer[plot]'\n")


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("size", [4, 8, 16, 64])
def test_peers_stand_apart_and_within_the_tile(name: str, size: int) -> None:
    points = place(build(name, size, degree=2, fresh_neighbors=2))
    assert points.shape == (size, 2)
    assert np.abs(points).max() == pytest.approx(1.0)
    apart = np.linalg.norm(points[:, None] - points, axis=2) + 9.0 * np.eye(size)
    assert apart.min() > 0.06


def test_edges_around_a_torus_leave_two_ends_outside() -> None:
    graph = build("torus", 12, grid_shape=(3, 4))
    assert isinstance(graph, Topology)
    points = place(graph)
    straight, around = segments(graph, graph.edges, points)
    assert (len(straight), len(around)) == (3 * 3 + 2 * 4, 2 * (3 + 4))
    assert np.allclose(np.linalg.norm(straight[:, 0] - straight[:, 1], axis=1), np.linalg.norm(points[0] - points[1]))
    outside = np.abs(around[:, 1]) > np.abs(points).max(axis=0) + 1e-9
    assert outside.any(axis=1).all()


def test_a_torus_of_one_row_is_a_ring() -> None:
    row, ring = build("torus", 6, grid_shape=(1, 6)), build("ring", 6)
    assert isinstance(ring, Topology)
    assert np.array_equal(place(row), place(ring))
    assert len(segments(row, ring.edges, place(row))[1]) == 0


def test_rounds_shown_are_those_that_most_graphs_need() -> None:
    def shown(size: int, *names: str) -> int:
        return measure([build(name, size) for name in names], None).rounds

    assert shown(8, "ring") == 37  # 32 of them to 1e-3
    assert shown(100, "ring") > 5248  # alone, it is not cut
    assert shown(100, "ring", "grid", "star", "full") == 150
    assert shown(16, "full", "exponential", "exponential-directed", "ring") == 17  # 14, and not the ring's 133
    assert shown(16, "full") == 5
    assert measure([build("ring", 100)], 12).rounds == 12


def test_curves_end_where_they_leave_the_picture() -> None:
    measured = measure([build(name, 16) for name in ("one-peer-exponential", "exponential", "full", "ring")], 40)
    exact, fast, full, ring = (curve.left for curve in measured.curves)
    assert (exact[-1], len(exact)) == (0.0, 5)
    assert (full[-1], len(full)) == (0.0, 2)
    assert 0.0 < fast[-1] < BOTTOM <= fast[-2]
    assert len(ring) > measured.rounds
