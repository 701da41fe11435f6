"""Time-varying graphs by name: each round's is drawn from its number and a public seed.

A new graph is a function as those of graphs.py that makes a `TimeVaryingGraph`, and one line in `TIME_VARYING`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpeer.exceptions import TopologyError
from dpeer.topology.graphs import Graph, powers_of_two
from dpeer.topology.random_graphs import (
    check_regular,
    draw_others,
    draw_regular,
    pairing_model,
    random_cycle,
    random_stream,
    shuffled,
)

_MANY = 64


@dataclass(frozen=True)
class TimeVaryingGraph:
    """How to draw the graph of any round.

    Attributes:
        draw: Round number -> its graph; the same on every peer.
        period: After how many rounds the graphs repeat; None if they never do.
        doubly_stochastic: Whether the matrices are doubly stochastic.
        parameters: The graphs' parameters; they define them together with name and size.
    """

    draw: Callable[[int], Graph]
    period: int | None = None
    doubly_stochastic: bool = True
    parameters: dict[str, Any] = field(default_factory=dict)


def one_peer_exponential(size: int) -> TimeVaryingGraph:
    """In round t rank i sends to i + 2^(t mod log2 size) only: one message, half of it mixed in.

    At powers of two everyone holds the exact average after log2 size rounds (Ying, Yuan, Chen, Hu, Pan and Yin,
    "Exponential graph is provably efficient for decentralized deep training", 2021, Lemma 1).
    """
    powers = powers_of_two(size)
    return TimeVaryingGraph(
        lambda number: Graph.of_steps(size, [powers[number % len(powers)]], directed=True), period=len(powers)
    )


def random_matching(size: int, graph_seed: int) -> TimeVaryingGraph:
    """In every round peers are paired at random and each pair averages; of an odd number one sits out.

    Boyd, Ghosh, Prabhakar and Shah, "Randomized gossip algorithms", 2006, with all pairs of a round at once.
    """

    def draw(number: int) -> Graph:
        ranks = shuffled(size, random_stream(graph_seed, number))
        pairs = np.sort(ranks[: size // 2 * 2].reshape(-1, 2), axis=1)
        return Graph(size, pairs[:, 0], pairs[:, 1])

    return TimeVaryingGraph(draw, parameters={"graph_seed": graph_seed})


def fresh(size: int, graph_seed: int, fresh_neighbors: int = 4) -> TimeVaryingGraph:
    """Each round has a new random graph in which everyone has `fresh_neighbors` neighbors; connected from 2 on."""
    degree = fresh_neighbors
    check_regular("fresh", "K", degree, size)

    def draw(number: int) -> Graph:
        generator = random_stream(graph_seed, number)
        for _ in range(1000):
            graph = _draw_fresh(size, degree, generator)
            if degree == 1 or graph.is_connected():
                return graph
        raise TopologyError(f"fresh: {degree} of {size} peers, round {number}: no draw is connected")

    return TimeVaryingGraph(draw, parameters={"fresh_neighbors": degree, "graph_seed": graph_seed})


def fresh_directed(size: int, graph_seed: int, fresh_neighbors: int = 4) -> TimeVaryingGraph:
    """In every round everyone draws `fresh_neighbors` peers to hear; others may hear the same ones.

    Rows of the matrix sum to one, columns do not: the average over the peers is not kept. It is how published
    simulations draw neighbors (Dai et al., "DisPFL", 2022, and those that build on its code).
    """
    degree = fresh_neighbors
    if not 1 <= degree < size:
        raise TopologyError(f"fresh-directed: K {degree} with size {size}: choose a K from 1 to {size - 1}")

    def draw(number: int) -> Graph:
        generator = random_stream(graph_seed, number)
        return Graph(
            size, draw_others(size, degree, generator).ravel(), np.repeat(np.arange(size), degree), directed=True
        )

    return TimeVaryingGraph(
        draw, doubly_stochastic=False, parameters={"fresh_neighbors": degree, "graph_seed": graph_seed}
    )


TIME_VARYING: dict[str, Callable[..., TimeVaryingGraph]] = {
    "one-peer-exponential": one_peer_exponential,
    "random-matching": random_matching,
    "fresh": fresh,
    "fresh-directed": fresh_directed,
}


def _draw_fresh(size: int, degree: int, generator: random.Random) -> Graph:
    """One draw, perhaps not connected; by the pairing model for many peers with few neighbors each."""
    if size < _MANY or 4 * degree > size:
        return Graph.of(draw_regular(size, degree, generator))
    return random_cycle(size, generator) if degree == 2 else pairing_model(size, degree, generator)
