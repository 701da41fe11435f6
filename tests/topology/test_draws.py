"""Draws of graphs and participants: from their seed, the same for every peer, and as random as they should be."""

import hashlib
import json
import math
import random
from typing import Any

import networkx as nx
import numpy as np
import pytest

from dpeer.topology import Participation, Topology, build
from dpeer.topology.draws import pairing_model


def changing(name: str, size: int, fresh_neighbors: int = 4, graph_seed: int = 0) -> Topology:
    graph = build(f"{name}:{fresh_neighbors}" if name.startswith("fresh") else name, size, graph_seed=graph_seed)
    assert graph.changing
    return graph


@pytest.mark.parametrize(("name", "count"), [("fresh", 3), ("fresh-directed", 5), ("random-matching", 1)])
def test_all_peers_are_as_likely_to_be_drawn(name: str, count: int) -> None:
    size, numbers = 66, 300
    graph = changing(name, size, count)
    met = sum(graph.weights_at(number) > 0.0 for number in range(numbers)).astype(float)
    expected = numbers * count / (size - 1)
    off = met[~np.eye(size, dtype=bool)]
    assert off.mean() == pytest.approx(expected)
    # Counts of fair draws differ by chance only: about Poisson, 4290 of them.
    assert off.std() == pytest.approx(np.sqrt(expected * (1.0 - count / (size - 1))), rel=0.1)
    assert off.max() < expected + 7.0 * np.sqrt(expected)


def test_draws_do_not_depend_on_the_process() -> None:
    """Peers draw each for themselves, and string hashing differs between their processes, as between runs of this."""
    draws: list[Any] = []
    for name in ("fresh-directed", "fresh", "one-peer-exponential", "random-matching"):
        for size, count, seed in ((8, 3, 5), (30, 4, 1), (100, 2, 7), (100, 4, 7), (700, 6, 3)):
            graph = changing(name, size, count, seed)
            draws.append([graph.digest, *(graph.edges_at(number) for number in (77, 0, 3))])
    draws.append(build("random-regular", 20, graph_seed=3).edges)
    draws.append([sorted(Participation(build("ring", 30), 0.3, 7).participants(number)) for number in (9, 0, 1000)])
    assert hashlib.sha256(json.dumps(draws).encode()).hexdigest()[:16] == "21c5228a100e5de4"  # pragma: allowlist secret


def test_small_regular_graphs_are_all_as_likely() -> None:
    # Of the 70 labelled graphs of 6 peers with 3 neighbors each, 10 are complete bipartite and 60 are prisms.
    generator = random.Random(1)
    bipartite = 0
    for _ in range(1000):
        bipartite += nx.is_bipartite(nx.Graph(pairing_model(6, 3, generator).tolist()))
    assert bipartite == pytest.approx(1000 / 7, abs=60)


def test_a_draw_that_is_not_connected_is_drawn_again() -> None:
    # Of the first draws with these seeds at least one is two separate groups of four.
    for seed in (15, 222, 304, 335):
        build("random-regular:3", 8, graph_seed=seed)


def test_small_worlds_keep_their_edges_and_move_some() -> None:
    still = build("small-world:4,0", 20)
    assert {(j - i) % 20 for i, j in still.edges} == {1, 2, 18, 19}
    moved = build("small-world:4,0.5", 20, graph_seed=3)
    assert len(moved.edges) == len(still.edges) == 40
    assert moved.edges != still.edges
    assert moved.parameters == {"degree": 4, "rewire": 0.5, "graph_seed": 3}


def test_erdos_renyi_joins_pairs_with_its_probability() -> None:
    assert build("erdos-renyi:1", 12).edges == build("full", 12).edges
    drawn = [len(build("erdos-renyi:0.3", 60, graph_seed=seed).edges) for seed in range(20)]
    assert sum(drawn) / 20 == pytest.approx(0.3 * 60 * 59 / 2, rel=0.05)
    expected = 2.0 * math.log(60) / 60
    assert build("erdos-renyi", 60).parameters == {"edge_probability": pytest.approx(expected), "graph_seed": 0}
