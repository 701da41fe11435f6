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

from dpeer.report.graphs import place, segments
from dpeer.report.topology_plot import BOTTOM, measure, picture
from dpeer.topology import TOPOLOGIES, Topology, build

Command = Callable[..., Any]


def texts(path: Path) -> list[str]:
    """Every text in an SVG."""
    root = ElementTree.fromstring(path.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.slow
def test_a_png_is_written_and_said(dpeer: Command) -> None:
    ended = dpeer("topology", "plot", "--topology", "ring,full,ring")
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(r"topology\.png: 2 graphs of 8 peers, their spectra and \d+ rounds of gossip\n", ended.out)
    with Image.open("topology.png") as image:
        image.load()
        assert image.format == "PNG"
        assert 1000 <= image.width <= 4000
        assert 1000 <= image.height <= 4000
        assert len(image.convert("RGB").getcolors(1 << 20) or []) > 100


@pytest.mark.slow
def test_an_svg_has_names_labels_and_gaps_as_text(dpeer: Command) -> None:
    brief = ("--topology", "ring,grid,one-peer-exponential,full", "--grid-shape", "4x2", "--fresh-neighbors", 3)
    ended = dpeer("topology", "plot", *brief, "--rounds", 7, "--graph-seed", 5, "--out", "a.SVG")
    assert ended.out == "a.SVG: 5 graphs of 8 peers, their spectra and 7 rounds of gossip\n"
    assert {
        "ring", "grid", "one-peer-exponential", "full", "singular value, from the largest", "rounds of gossip",
        "messages sent per peer (mean)", "1e-3", "8 peers, metropolis weights (uniform where directed)",
        "ring: gap 0.1953, 2 messages a round, 1e-3 after 32 rounds",
        "one-peer-exponential: gap 1.0000 of 3 rounds, 1 message a round, 1e-3 after 3 rounds",
        "exactly the average from here on", "rounds 0-2, then again from 0", "4 x 2", "fresh neighbors 3, graph seed 5",
    } <= set(texts(Path("a.SVG")))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_same_graphs_give_the_same_bytes(suffix: str) -> None:
    asked = [build(name, 12) for name in ("torus", "random-matching")]
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
def test_many_peers_have_no_numbers_and_not_all_of_very_many_edges(dpeer: Command) -> None:
    graphs = "exponential-directed,random-matching,full"
    assert dpeer("topology", "plot", "--topology", graphs, "--size", "300", "--out", "a.svg").code == 0
    found = texts(Path("a.svg"))
    assert {"44,850 edges, 20,000 of them drawn at random", "2,700 directed edges"} <= set(found)
    assert "rounds 0-3, drawn anew in every round" in found
    assert "99" not in found
    assert Path("a.svg").stat().st_size < 2_500_000


@pytest.mark.slow
def test_a_graph_from_a_file(dpeer: Command, in_tmp_path: Path) -> None:
    name = "a$very$long name of a file 图 that reaches far.txt"
    (in_tmp_path / name).write_text("0 1\n1 2\n2 3\n3 0\n3 4\n")
    ended = dpeer("topology", "plot", "--topology", f"file:{name}", "--out", "a.svg")
    assert ended.out == "a.svg: 1 graph of 5 peers, its spectrum and 35 rounds of gossip\n"
    assert "file:a$very$long name of a …" in texts(in_tmp_path / "a.svg")


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
