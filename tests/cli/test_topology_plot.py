"""`dpeer topology show --plot`: the picture, and what is said where it cannot be drawn."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from dpeer.report.graphs import picture, place
from dpeer.topology import TOPOLOGIES, build

Command = Callable[..., Any]


def texts(path: Path) -> list[str]:
    """Every text in an SVG."""
    root = ElementTree.fromstring(path.read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.slow
def test_a_png_is_written_and_said(dpeer: Command) -> None:
    ended = dpeer("topology", "show", "--topology", "ring", "--plot", "ring.png")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "ring.png: ring of 8 peers\n"
    with Image.open("ring.png") as image:
        image.load()
        assert image.format == "PNG"
        assert 500 <= image.width <= image.height <= 4000
        assert len(image.convert("RGB").getcolors(1 << 20) or []) > 100


@pytest.mark.slow
def test_an_svg_has_names_and_labels_as_text(dpeer: Command) -> None:
    brief = ("--topology", "one-peer-exponential", "--size", 8)
    assert dpeer("topology", "show", *brief, "--plot", "a.SVG").code == 0
    named = {"one-peer-exponential", "8 peers, uniform weights", "a new graph every round", "round 2", "7"}
    assert named <= set(texts(Path("a.SVG")))


@pytest.mark.slow
def test_many_peers_have_no_numbers_and_very_many_edges_are_no_lines_of_their_own() -> None:
    drawn = picture(build("full", 100), "svg")
    assert b"4,950 edges" in drawn
    assert b">99<" not in drawn
    assert len(drawn) < 500_000


@pytest.mark.slow
def test_a_graph_from_a_file(dpeer: Command, in_tmp_path: Path) -> None:
    name = "a$very$long name of a file 图 that reaches far.txt"
    (in_tmp_path / name).write_text("0 1\n1 2\n2 3\n3 0\n3 4\n")
    assert dpeer("topology", "show", "--topology", f"file:{name}", "--plot", "a.svg").code == 0
    assert "file:a$very$long name of a …" in texts(in_tmp_path / "a.svg")


def test_without_matplotlib_the_extra_is_named(dpeer: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = dpeer("topology", "show", "--plot", "a.png")
    assert (ended.code, ended.err) == (
        2, "dpeer: dpeer topology show --plot needs matplotlib: pip install 'dpeer[plot]'\n"
    )  # fmt: skip


@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("size", [4, 8, 16, 64])
def test_peers_stand_apart(name: str, size: int) -> None:
    few = name in ("random-regular", "small-world", "fresh", "fresh-directed")
    found = place(build(f"{name}:2" if few else name, size))
    points = np.array([found[rank] for rank in range(size)])
    apart = np.linalg.norm(points[:, None] - points, axis=2) + 9.0 * np.eye(size)
    assert apart.min() > 0.06
