"""Fixed graphs that are drawn at random: from their seed, and the same for every peer."""

import json
import math
from typing import Any

import pytest

from dpeer.exceptions import TopologyError
from dpeer.topology import build


@pytest.mark.parametrize(("size", "degree"), [(2, 1), (5, 4), (8, 3), (8, 4), (9, 2), (30, 28), (40, 2), (50, 3)])
def test_random_regular_graphs_are_regular_and_drawn_from_their_seed(size: int, degree: int) -> None:
    graph = build("random-regular", size, degree=degree, graph_seed=5)
    assert {len(graph.at(0, rank).out_neighbors) for rank in range(size)} == {degree}
    assert graph.parameters == {"degree": degree, "graph_seed": 5}
    assert graph == build("random-regular", size, degree=degree, graph_seed=5)


def test_a_draw_that_is_not_connected_is_drawn_again() -> None:
    # Of the first draws with these seeds at least one is two separate groups of four.
    for seed in (15, 222, 304, 335):
        build("random-regular", 8, degree=3, graph_seed=seed)


def test_another_seed_draws_another_graph() -> None:
    drawn = {json.dumps(build("random-regular", 20, graph_seed=seed).edges) for seed in range(5)}
    assert len(drawn) == 5


def test_a_random_graph_stays_what_it_was() -> None:
    # When this fails, seeds mean other graphs than in earlier releases: say so in the release notes.
    edges = [[0, 1], [0, 6], [0, 7], [1, 3], [1, 7], [2, 4], [2, 5], [2, 7], [3, 4], [3, 6], [4, 5], [5, 6]]
    assert build("random-regular", 8, degree=3).edges == edges


@pytest.mark.parametrize(
    ("size", "degree", "message"),
    [
        (4, 4, "degree 4 with size 4: choose a degree from 1 to 3"),
        (4, 0, "degree 0 with size 4: choose a degree from 1 to 3"),
        (7, 3, "degree 3 with size 7 does not exist: one of them must be even"),
        (6, 1, "degree 1 with size 6 is not connected"),
    ],
)
def test_random_regular_graphs_that_do_not_exist(size: int, degree: int, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        build("random-regular", size, degree=degree)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(TopologyError, match="graph seed -1"):
        build("random-regular", 8, graph_seed=-1)


def test_small_worlds_keep_their_edges_and_move_some() -> None:
    still = build("small-world", 20, rewire=0.0)
    assert {(j - i) % 20 for i, j in still.edges} == {1, 2, 18, 19}
    moved = build("small-world", 20, rewire=0.5, graph_seed=3)
    assert len(moved.edges) == len(still.edges) == 40
    assert moved.edges != still.edges
    assert moved.parameters == {"degree": 4, "rewire": 0.5, "graph_seed": 3}


def test_erdos_renyi_joins_pairs_with_its_probability() -> None:
    assert build("erdos-renyi", 12, edge_probability=1.0).edges == build("full", 12).edges
    drawn = [len(build("erdos-renyi", 60, edge_probability=0.3, graph_seed=seed).edges) for seed in range(20)]
    assert sum(drawn) / 20 == pytest.approx(0.3 * 60 * 59 / 2, rel=0.05)
    expected = 2.0 * math.log(60) / 60
    assert build("erdos-renyi", 60).parameters == {"edge_probability": pytest.approx(expected), "graph_seed": 0}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("small-world", {"degree": 3}, "small-world: degree 3 with size 8: choose an even degree from 2 to 6"),
        ("small-world", {"degree": 8}, "choose an even degree from 2 to 6"),
        ("small-world", {"degree": 0}, "choose an even degree from 2 to 6"),
        ("small-world", {"rewire": 1.5}, "small-world: rewire 1.5: choose a probability from 0 to 1"),
        ("small-world", {"rewire": float("nan")}, "small-world: rewire nan"),
        ("erdos-renyi", {"edge_probability": 0.0}, "edge probability 0: choose more than 0 and at most 1"),
        ("erdos-renyi", {"edge_probability": 1.1}, "edge probability 1.1"),
        ("erdos-renyi", {"edge_probability": float("nan")}, "edge probability nan"),
        ("erdos-renyi", {"edge_probability": 0.01}, "none of 1000 draws is connected: choose a larger one"),
    ],
)
def test_random_graphs_that_do_not_exist(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        build(name, 8, **options)
