"""Geometry of the live page's drawings, measured in the SVG: places, curves, axes."""

import math
import re
from itertools import combinations, pairwise
from typing import Any

import pytest

from dpeer.report.live_charts import line_chart, value_scale
from dpeer.report.live_page import view
from tests.report.html_tree import Node, tree
from tests.report.live_documents import document, running, stopped

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def numbers(one: Node, name: str = "d") -> list[float]:
    return [float(number) for number in NUMBER.findall(one.attributes[name] or "")]


def places(graph: Node) -> dict[str, tuple[float, float, float]]:
    """By rank, the middle and the radius of its mark."""
    found = {}
    for one in graph.all("g", "peer"):
        mark = next(each for each in one.all() if "shape" in each.classes)
        if mark.tag == "circle":
            x, y, radius = (float(mark.attributes[name] or 0) for name in ("cx", "cy", "r"))
        else:
            x, y, side = (float(mark.attributes[name] or 0) for name in ("x", "y", "width"))
            x, y, radius = x + side / 2, y + side / 2, side / math.sqrt(2)
        found[one.attributes["data-rank"] or ""] = (x, y, radius)
    return found


def graph(*peers: Any) -> Node:
    return tree(view(document(*peers))).one("svg", "graph")


@pytest.mark.parametrize("size", [2, 3, 4, 9, 16, 24, 25, 36, 37, 60, 100])
def test_marks_are_apart_and_within_the_drawing(size: int) -> None:
    found = places(graph(*(running(rank, size) if rank % 3 else stopped(rank) for rank in range(size))))
    for (a, b, radius), (c, d, other) in combinations(found.values(), 2):
        assert math.hypot(a - c, b - d) > 0.9 * (radius + other)
    assert all(radius <= min(x, y, 360 - x, 360 - y) + 1 for x, y, radius in found.values())
    far = [math.hypot(x - 180, y - 180) for x, y, _ in found.values()]
    assert max(far) - min(far) < 0.3


@pytest.mark.parametrize("size", [*range(5, 25)])
def test_a_link_passes_beside_the_peers_between_its_ends(size: int) -> None:
    found = graph(*(running(rank, size, hops=2) for rank in range(size)))
    where = places(found)
    for link in found.all("g", "link"):
        ends = (link.attributes["data-link"] or "").split("-")
        a, b, x, y, c, d = numbers(link.one("path"))
        assert {(a, b), (c, d)} == {where[rank][:2] for rank in ends}
        curve = [
            tuple((1 - t) ** 2 * p + 2 * t * (1 - t) * q + t * t * r for p, q, r in ((a, x, c), (b, y, d)))
            for t in (step / 40 for step in range(41))
        ]
        for rank, (e, f, radius) in where.items():
            if rank not in ends:
                assert min(math.hypot(px - e, py - f) for px, py in curve) > radius, (link.attributes, rank)


def test_an_arrow_ends_at_the_mark_of_the_awaited_peer() -> None:
    found = graph(running(0, 12, waits={1: "late", 6: "late"}), *(running(rank, 12) for rank in range(1, 12)))
    where = places(found)
    for one in (one for one in found.all("g", "wait") if one.all("title")):
        ends = (one.attributes["data-wait"] or "").split("-")
        a, b, _, _, c, d = numbers(one.one("path"))
        for rank, (x, y) in zip(ends, ((a, b), (c, d)), strict=True):
            assert where[rank][2] < math.dist(where[rank][:2], (x, y)) < where[rank][2] + 4


def test_two_that_wait_for_each_other_have_two_arrows() -> None:
    found = graph(running(0, 5, waits={1: "late"}), running(1, 5, waits={0: "late"}))
    first, second = (numbers(one.one("path")) for one in found.all("g", "wait") if one.all("title"))
    assert math.dist(first[2:4], second[2:4]) > 10, "on the two sides of their link"


def test_ranks_outside_do_not_touch_and_those_in_trouble_come_first() -> None:
    found = graph(*(stopped(rank) if rank in (17, 63) else running(rank, 100, hops=2) for rank in range(100)))
    labels = {one.text: numbers(one, "x") + numbers(one, "y") for one in found.all("text", "outside")}
    assert {"17", "63"} <= labels.keys()
    assert len(labels) > 15
    for one, other in combinations(labels.values(), 2):
        assert math.dist(one, other) > 12


# Charts ------------------------------------------------------------------------------------------------------------


def axis(chart: Node, kind: str, coordinate: str) -> list[tuple[float, float]]:
    """The values of an axis's labels, and where they stand."""
    return [
        (float(one.text.replace("\N{MINUS SIGN}", "-")), float(one.attributes[coordinate] or 0))
        for one in chart.all("text", kind)
    ]


def read_back(chart: Node, *, log: bool = False) -> dict[str, list[tuple[float, float]]]:
    """Each line's points in the units of the axes, by what the first and last labels of these say."""

    def scaled(labels: list[tuple[float, float]], place: float, log: bool = False) -> float:
        (low, start), (high, end) = labels[0], labels[-1]
        if start == end:
            return low
        if log:
            low, high = math.log(low), math.log(high)
        value = low + (high - low) * (place - start) / (end - start)
        return math.exp(value) if log else value

    rounds, values = axis(chart, "round", "x"), axis(chart, "value", "y")
    values = [(value, place - 3.5) for value, place in values]
    found = {}
    for line in chart.all("g", "line"):
        points = numbers(line.one("path"))
        name = line.attributes.get("data-rank") or "median"
        found[name] = [(scaled(rounds, x), scaled(values, y, log))
                       for x, y in zip(points[::2], points[1::2], strict=True)]  # fmt: skip
    return found


def chart(lines: dict[str, list[tuple[int, float]]], **more: Any) -> Node:
    colors = {name: number % 8 for number, name in enumerate(lines)}
    return tree(line_chart(lines, colors, str, "Accuracy", **more))


@pytest.mark.parametrize(
    "values",
    [[0.1, 0.5, 0.9], [0.987, 0.9871, 0.98705], [0.0, 0.0], [5.0], [1e-9, 2e-9], [-3.0, 4.0], [1200.0, 1300.0, 900.0]],
)
def test_a_point_is_where_the_labels_of_the_axes_say(values: list[float]) -> None:
    found = chart({"3": list(enumerate(values, 7))})
    span = max(values) - min(values) or abs(values[0]) or 1.0
    for (number, value), (x, y) in zip(enumerate(values, 7), read_back(found)["3"], strict=True):
        assert x == pytest.approx(number, abs=0.05)
        assert y == pytest.approx(value, abs=0.02 * span)
    labels = axis(found, "value", "y")
    assert 3 <= len(labels) <= 6
    assert len({value for value, _ in labels}) == len(labels), "no two labels are alike"
    assert labels[0][0] <= min(values)
    assert labels[-1][0] >= max(values)


def test_values_far_apart_have_a_logarithmic_axis_on_which_zero_has_no_place() -> None:
    values = [0.002, 0.0, 0.5, 3.0]
    points = read_back(chart({"0": list(enumerate(values, 1))}), log=True)["0"]
    assert [round(x) for x, _ in points] == [1, 3, 4]
    assert [y for _, y in points] == pytest.approx([0.002, 0.5, 3.0], rel=0.05)


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 12, 57, 199, 200])
@pytest.mark.parametrize("first", [1, 41, 9801])
def test_labels_of_rounds_are_whole_apart_and_reach_the_last(first: int, rounds: int) -> None:
    last = first + rounds - 1
    labels = axis(chart({"0": [(number, 0.5) for number in range(first, last + 1)]}), "round", "x")
    assert labels[-1][0] == last
    assert all(value == int(value) for value, _ in labels)
    assert all(after - before > 24 for (_, before), (_, after) in pairwise(labels))


def test_an_axis_does_not_go_past_its_bounds_for_the_sake_of_round_labels() -> None:
    assert value_scale([1.0], (0.0, 1.0), zero=False).high == 1.0
    assert value_scale([0.97, 0.999], (0.0, 1.0), zero=False).high == 1.0
    assert value_scale([20.0, 25.0], zero=True).low == 0.0
    assert [label for _, label in value_scale([0, 1], zero=True, whole=True).ticks] == ["0", "1"]


def test_of_many_peers_the_median_is_drawn_and_the_extremes_have_their_ranks() -> None:
    lines = {str(rank): [(number, 0.5 + 0.01 * ((rank * 7) % 31) + 0.001 * number) for number in range(1, 150)]
             for rank in range(31)}  # fmt: skip
    lines["4"][77] = (78, 0.99)
    found = chart(lines)
    drawn = read_back(found)
    for x, y in drawn.pop("median"):
        assert y == pytest.approx(0.65 + 0.001 * x, abs=0.003)
    assert max(y for _, y in drawn["4"]) == pytest.approx(0.99, abs=0.005), "a thinned line keeps its peaks"
    assert drawn["0"][-1][0] == pytest.approx(149, abs=0.05)
    assert all(len(points) < 149 for points in drawn.values())
    ends = {one.text: float(one.attributes["y"] or 0) for one in found.all("text", "end")}
    best, worst = ((value * pow(7, -1, 31)) % 31 for value in (30, 0))
    assert ends.keys() == {str(best), str(worst)}


def test_a_median_ends_with_the_last_round_that_most_peers_have() -> None:
    lines = {
        str(rank): [(number, float(rank)) for number in range(1, 9 + (rank > 2) + (rank > 9))] for rank in range(12)
    }
    last, value = read_back(chart(lines))["median"][-1]
    assert last == pytest.approx(9, abs=0.05), "of 12 peers 9 have this round, and 2 the next"
    assert value == pytest.approx(7, abs=0.2)


def test_ranks_at_the_ends_of_equal_lines_do_not_cover_each_other() -> None:
    for value in (0.0, 0.5, 1.0):
        found = chart({str(rank): [(1, value), (2, value)] for rank in range(8)} | {"8": [(1, 0.0)], "9": [(1, 1.0)]})
        assert found.all("text", "end"), "of many, two"
        found = chart({str(rank): [(1, 0.3 * rank % 1), (2, value)] for rank in range(8)})
        heights = sorted(float(one.attributes["y"] or 0) for one in found.all("text", "end"))
        assert len(heights) == 8
        assert all(after - before > 9.9 for before, after in pairwise(heights))
        assert heights[0] > 5
        assert heights[-1] < 188
