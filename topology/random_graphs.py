"""Graphs drawn from a public seed: the same seed gives every peer the same graph, in every process.

Draws that do not connect everyone are drawn again, from the same stream; where none does, that is an error.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import networkx as nx

from dpeer.exceptions import TopologyError
from dpeer.topology.edges import Drawing, Links, Request

_EDGES = 5_000_000


def random_regular(request: Request) -> Drawing:
    """A random connected graph in which everyone has `degree` neighbors."""
    size, degree, seed = request.size, request.degree, request.graph_seed
    check_regular("random-regular", "degree", degree, size)
    if degree == 1 and size > 2:
        raise TopologyError(f"random-regular: degree 1 with size {size} is not connected: choose 2 or more")
    graph = _connected(
        lambda generator: draw_regular(size, degree, generator),
        size,
        generator_of(seed, "random-regular"),
        f"random-regular: degree {degree} with size {size}, graph seed {seed}",
    )
    return Drawing(Links.of(graph), {"degree": degree, "graph_seed": seed})


def small_world(request: Request) -> Drawing:
    """A ring in which everyone is joined to the `degree` nearest, each edge then moved with probability `rewire`.

    Watts and Strogatz, "Collective dynamics of 'small-world' networks", 1998.
    """
    size, degree, rewire, seed = request.size, request.degree, request.rewire, request.graph_seed
    if degree % 2 or not 2 <= degree < size:
        most = (size - 1) // 2 * 2
        choices = {0: "at least 3 peers", 2: "degree 2"}.get(most, f"an even degree from 2 to {most}")
        raise TopologyError(f"small-world: degree {degree} with size {size}: choose {choices}")
    if not 0.0 <= rewire <= 1.0:
        raise TopologyError(f"small-world: rewire {rewire:g}: choose a probability from 0 to 1")
    graph = _connected(
        lambda generator: nx.watts_strogatz_graph(size, degree, rewire, seed=generator),
        size,
        generator_of(seed, "small-world"),
        f"small-world: degree {degree}, rewire {rewire:g} with size {size}, graph seed {seed}",
    )
    return Drawing(Links.of(graph), {"degree": degree, "rewire": rewire, "graph_seed": seed})


def erdos_renyi(request: Request) -> Drawing:
    """Every pair is joined with probability `edge_probability`, by default twice the threshold of connectedness.

    Erdos and Renyi, "On random graphs I", 1959 (in Gilbert's form, each edge on its own).
    """
    size, seed = request.size, request.graph_seed
    default = min(1.0, 2.0 * math.log(size) / size)
    probability = default if request.edge_probability is None else request.edge_probability
    if not 0.0 < probability <= 1.0:
        raise TopologyError(f"erdos-renyi: edge probability {probability:g}: choose more than 0 and at most 1")
    edges = probability * size * (size - 1) / 2.0
    if edges > _EDGES:
        raise TopologyError(
            f"erdos-renyi: edge probability {probability:.4g} with size {size} makes about {edges:,.0f} edges, "
            f"and at most {_EDGES:,} are drawn: choose less"
        )
    graph = _connected(
        lambda generator: nx.fast_gnp_random_graph(size, probability, seed=generator),
        size,
        generator_of(seed, "erdos-renyi"),
        f"erdos-renyi: edge probability {probability:.4g} with size {size}, graph seed {seed}",
        advice=f": choose a larger one (the default here is {default:.4g})",
    )
    return Drawing(Links.of(graph), {"edge_probability": probability, "graph_seed": seed})


def generator_of(seed: int, name: str, *more: int) -> random.Random:
    """The stream of `seed`, or of its round or draw numbered by `more`; independent of all the others.

    Raises:
        TopologyError: If the seed is negative: Python's generator would take it for its absolute value.
    """
    if seed < 0:
        raise TopologyError(f"{name}: graph seed {seed}: choose 0 or more")
    # A text is hashed by SHA-512, the same in every process; numbers side by side would overlap.
    return random.Random(" ".join(map(str, (seed, *more))) if more else seed)  # noqa: S311 - public on purpose


def check_regular(name: str, option: str, degree: int, size: int) -> None:
    """Refuse a number of neighbors that not all of `size` peers can have.

    Raises:
        TopologyError: Naming the graph, its option and what would be right.
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
    elif 2 * degree >= size:  # networkx takes minutes when nearly everyone is joined: draw who is not
        graph = nx.complement(nx.random_regular_graph(size - 1 - degree, size, seed=generator))
    else:
        graph = nx.random_regular_graph(degree, size, seed=generator)
    return graph


def _connected(
    draw: Callable[[random.Random], nx.Graph[int]], size: int, generator: random.Random, what: str, advice: str = ""
) -> nx.Graph[int]:
    draws = max(10, min(1000, 1_000_000 // size))  # a few seconds at most
    for _ in range(draws):
        graph = draw(generator)
        if nx.is_connected(graph):
            return graph
    raise TopologyError(f"{what}: none of {draws} draws is connected{advice}")
