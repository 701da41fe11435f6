"""Random graphs from a public seed: the same seed gives every peer the same graph, in every process.

Draws that do not connect everyone are repeated from the same stream; where none does, that is an error. Large graphs
take random bits from Python's generator and do the rest on whole arrays. Python's generator gives the same bits for the
same seed on every machine and in every release so far; numpy reserves the right to change its own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np

from dpeer.exceptions import TopologyError
from dpeer.topology.graphs import MOST_EDGES, Graph, Ranks, powers_of_two


def random_regular(size: int, graph_seed: int, degree: int = 4) -> Graph:
    """A random connected graph in which everyone has `degree` neighbors."""
    check_regular("random-regular", "degree", degree, size)
    if degree == 1 and size > 2:
        raise TopologyError(f"random-regular: degree 1 with size {size} is not connected: choose 2 or more")
    parameters = {"degree": degree, "graph_seed": graph_seed}
    return _connected("random-regular", parameters, size, lambda generator: draw_regular(size, degree, generator))


def small_world(size: int, graph_seed: int, degree: int = 4, rewire: float = 0.1) -> Graph:
    """A ring in which everyone is joined to the `degree` nearest, each edge then moved with probability `rewire`.

    Watts and Strogatz, "Collective dynamics of 'small-world' networks", 1998.
    """
    if degree % 2 or not 2 <= degree < size:
        most = (size - 1) // 2 * 2
        choices = {0: "at least 3 peers", 2: "degree 2"}.get(most, f"an even degree from 2 to {most}")
        raise TopologyError(f"small-world: degree {degree} with size {size}: choose {choices}")
    if not 0.0 <= rewire <= 1.0:
        raise TopologyError(f"small-world: rewire {rewire:g}: choose a probability from 0 to 1")
    parameters = {"degree": degree, "rewire": rewire, "graph_seed": graph_seed}
    return _connected(
        "small-world", parameters, size, lambda generator: nx.watts_strogatz_graph(size, degree, rewire, seed=generator)
    )


def erdos_renyi(size: int, graph_seed: int, edge_probability: float | None = None) -> Graph:
    """Every pair is joined with probability `edge_probability`, by default twice the threshold of connectedness.

    Erdos and Renyi, "On random graphs I", 1959 (in Gilbert's form, each edge on its own).
    """
    default = min(1.0, 2.0 * math.log(size) / size)
    probability = default if edge_probability is None else edge_probability
    if not 0.0 < probability <= 1.0:
        raise TopologyError(f"erdos-renyi: edge probability {probability:g}: choose more than 0 and at most 1")
    edges = probability * size * (size - 1) / 2.0
    if edges > MOST_EDGES:
        raise TopologyError(
            f"erdos-renyi: edge probability {probability:.4g} with size {size} makes about {edges:,.0f} edges, "
            f"and at most {MOST_EDGES:,} are drawn: choose less"
        )
    return _connected(
        "erdos-renyi",
        {"edge_probability": probability, "graph_seed": graph_seed},
        size,
        lambda generator: nx.fast_gnp_random_graph(size, probability, seed=generator),
        advice=f": choose a larger probability (the default here is {default:.4g})",
    )


RANDOM: dict[str, Callable[..., Graph]] = {
    "random-regular": random_regular,
    "small-world": small_world,
    "erdos-renyi": erdos_renyi,
}


def random_stream(seed: int, *more: int) -> random.Random:
    """The stream of `seed`, or of its round or draw numbered by `more`; independent of all the others."""
    # A text is hashed by SHA-512, the same in every process; numbers side by side would overlap.
    return random.Random(" ".join(map(str, (seed, *more))) if more else seed)  # noqa: S311 - public on purpose


def check_regular(name: str, option: str, degree: int, size: int) -> None:
    """Refuse a number of neighbors that not all of `size` peers can have.

    Raises:
        TopologyError: Naming the graph, its option and the right values.
    """
    if not 1 <= degree < size:
        raise TopologyError(
            f"{name}: {option} {degree} with size {size}: choose a {option} from 1 to {size - 1}, or more peers"
        )
    if degree * size % 2:
        raise TopologyError(f"{name}: {option} {degree} with size {size} does not exist: one of them must be even")


def draw_regular(size: int, degree: int, generator: random.Random) -> nx.Graph[int]:
    """One random graph in which everyone has `degree` neighbors, perhaps not connected."""
    graph: nx.Graph[int]
    if degree == 2:  # connected and 2-regular is one cycle, which a plain draw seldom is
        order = generator.sample(range(size), size)
        graph = nx.Graph([*pairwise(order), (order[-1], order[0])])
    elif 2 * degree >= size:  # networkx takes minutes when nearly everyone is joined: draw the edges that are missing
        graph = nx.complement(nx.random_regular_graph(size - 1 - degree, size, seed=generator))
    else:
        graph = nx.random_regular_graph(degree, size, seed=generator)
    return graph


def _connected(
    name: str, parameters: dict[str, Any], size: int, draw: Callable[[random.Random], nx.Graph[int]], advice: str = ""
) -> Graph:
    generator = random_stream(parameters["graph_seed"])
    draws = max(10, min(1000, 1_000_000 // size))  # a few seconds at most
    for _ in range(draws):
        graph = draw(generator)
        if nx.is_connected(graph):
            return Graph.of(graph, parameters)
    stated = ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in parameters.items())
    raise TopologyError(f"{name}: {stated} with size {size}: none of {draws} draws is connected{advice}")


def shuffled(count: int, generator: random.Random) -> Ranks:
    """The numbers 0..count-1 in random order."""
    place = np.uint64(count.bit_length())
    # Random numbers that end in their place: once they are sorted the places are shuffled, and no two are equal.
    drawn = _bits(count, generator) << place | np.arange(count, dtype=np.uint64)
    return (np.sort(drawn) & ((np.uint64(1) << place) - np.uint64(1))).astype(np.int64)


def random_cycle(size: int, generator: random.Random) -> Graph:
    """A graph in which all peers form one circle, in random order."""
    order = shuffled(size, generator)
    return Graph(size, order, np.roll(order, -1))


def pairing_model(size: int, degree: int, generator: random.Random) -> Graph:
    """A random graph in which everyone has `degree` neighbors, at most a quarter of all; perhaps not connected.

    Everyone has `degree` ends of edges, and the ends are joined at random (Bollobas, "A probabilistic proof of an
    asymptotic formula for the number of labelled regular graphs", 1980). The few edges that join a peer to itself, or a
    pair twice, are cut and joined again together with as many others, until none is left: nearly uniform, as with the
    switchings of McKay and Wormald, "Uniform generation of random regular graphs of moderate degree", 1990.
    """
    ends = (shuffled(size * degree, generator) // degree).reshape(-1, 2)
    while len(wrong := _wrong(ends, size)):
        again = np.union1d(wrong, generator.sample(range(len(ends)), len(wrong)))
        loose = ends[again].ravel()
        ends[again] = loose[shuffled(len(loose), generator)].reshape(-1, 2)
    return Graph(size, ends[:, 0], ends[:, 1])


def draw_others(size: int, count: int, generator: random.Random) -> Ranks:
    """For each peer `count` different other peers, (size, count), by Floyd's algorithm for all peers at once.

    Bentley and Floyd, "A sample of brilliance", 1987.
    """
    found = np.empty((size, count), dtype=np.int64)
    for column, last in enumerate(range(size - 1 - count, size - 1)):
        # The remainder favors small ranks by less than one in 10^14.
        drawn = (_bits(size, generator) % np.uint64(last + 1)).astype(np.int64)
        known = (found[:, :column] == drawn[:, None]).any(axis=1)
        found[:, column] = np.where(known, last, drawn)
    return found + (found >= np.arange(size)[:, None])  # no peer draws itself


def _wrong(ends: Ranks, size: int) -> Ranks:
    """The edges that join a peer to itself or repeat an earlier one."""
    low, high = ends.min(axis=1), ends.max(axis=1)
    pairs = low * size + high
    wrong = low == high
    ordered = np.sort(pairs)
    if (ordered[1:] == ordered[:-1]).any():  # seldom after the first look, and finding out which is dearer
        order = np.argsort(pairs, kind="stable")
        wrong[order[1:][pairs[order[1:]] == pairs[order[:-1]]]] = True
    return np.flatnonzero(wrong)


def _bits(count: int, generator: random.Random) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.frombuffer(generator.randbytes(8 * count), dtype="<u8").astype(np.uint64)


_MANY = 64


@dataclass(frozen=True)
class TimeVaryingGraph:
    """How to draw the graph of any round.

    Attributes:
        draw: Round number -> its graph; the same on every peer.
        period: After how many rounds the graphs repeat; None if they never do.
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
