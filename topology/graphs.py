"""The graphs, by name. Nodes are the ranks 0..size-1; an edge of a directed graph runs from sender to receiver.

A new graph is one function from a `Request` to a `Drawing` and one line in `GRAPHS`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import networkx as nx

from dpeer.exceptions import TopologyError


@dataclass(frozen=True)
class Request:
    """What a graph may be drawn from; each graph takes what it needs and ignores the rest.

    Attributes:
        size: The number of peers, at least 2.
        grid_shape: (rows, columns) of a grid or torus; None for the most nearly square one.
        degree: The number of neighbors of each peer in a random regular graph.
        graph_seed: What a random graph is drawn from, at least 0.
    """

    size: int
    grid_shape: tuple[int, int] | None = None
    degree: int = 4
    graph_seed: int = 0


@dataclass(frozen=True)
class Drawing:
    """A graph and the parameters that, with its name and size, define it (JSON-able)."""

    graph: nx.Graph[int]
    parameters: dict[str, Any] = field(default_factory=dict)


def ring(request: Request) -> Drawing:
    """Each peer is joined to the one before and the one after it."""
    return Drawing(nx.cycle_graph(request.size))


def grid(request: Request) -> Drawing:
    """Rows and columns, rank = row * columns + column; open at the borders."""
    return _lattice("grid", request, periodic=False)


def torus(request: Request) -> Drawing:
    """A grid whose borders are joined; in a dimension of 2 that would double an edge, so nothing is added."""
    return _lattice("torus", request, periodic=True)


def exponential(request: Request) -> Drawing:
    """Rank i is joined to i + 2^k and i - 2^k for every 2^k < size (the papers' Definition 1: symmetric)."""
    return Drawing(nx.circulant_graph(request.size, _powers_of_two(request.size)))


def exponential_directed(request: Request) -> Drawing:
    """Rank i sends to i + 2^k for every 2^k < size: ceil(log2 size) messages a round."""
    size = request.size
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from((i, (i + step) % size) for i in range(size) for step in _powers_of_two(size))
    return Drawing(graph)


def full(request: Request) -> Drawing:
    """Everyone is joined to everyone."""
    return Drawing(nx.complete_graph(request.size))


def star(request: Request) -> Drawing:
    """Everyone is joined to rank 0."""
    return Drawing(nx.star_graph(request.size - 1))


def random_regular(request: Request) -> Drawing:
    """A random connected graph in which everyone has `degree` neighbors, the same for the same `graph_seed`."""
    size, degree, seed = request.size, request.degree, request.graph_seed
    if not 1 <= degree < size:
        raise TopologyError(
            f"random-regular: degree {degree} with size {size}: choose a degree from 1 to {size - 1}, or more peers"
        )
    if degree * size % 2:
        raise TopologyError(
            f"random-regular: degree {degree} with size {size} does not exist: one of them must be even"
        )
    if degree == 1 and size > 2:
        raise TopologyError(f"random-regular: degree 1 with size {size} is not connected: choose 2 or more")
    if seed < 0:  # Python's generator would take it for its absolute value
        raise TopologyError(f"random-regular: graph seed {seed}: choose 0 or more")
    generator = random.Random(seed)  # noqa: S311 - a graph everyone must be able to draw again
    for _ in range(1000):
        graph = _draw_regular(size, degree, generator)
        if nx.is_connected(graph):
            return Drawing(graph, {"degree": degree, "graph_seed": seed})
    raise TopologyError(
        f"random-regular: degree {degree} with size {size}, graph seed {seed}: none of 1000 draws is connected"
    )


GRAPHS: dict[str, Callable[[Request], Drawing]] = {
    "ring": ring,
    "grid": grid,
    "torus": torus,
    "exponential": exponential,
    "exponential-directed": exponential_directed,
    "full": full,
    "star": star,
    "random-regular": random_regular,
}


def _powers_of_two(size: int) -> list[int]:
    """1, 2, 4, ... below `size`: ceil(log2 size) of them."""
    return [1 << k for k in range((size - 1).bit_length())]


def _lattice(name: str, request: Request, *, periodic: bool) -> Drawing:
    rows, columns = _shape(name, request)
    lattice = nx.grid_2d_graph(rows, columns, periodic=periodic)
    graph = nx.relabel_nodes(lattice, {(row, column): row * columns + column for row, column in lattice})
    return Drawing(graph, {"grid_shape": [rows, columns]})


def _shape(name: str, request: Request) -> tuple[int, int]:
    """The shape asked for, or the most nearly square one with no more rows than columns."""
    size = request.size
    if request.grid_shape is not None:
        rows, columns = request.grid_shape
        if rows < 1 or columns < 1 or rows * columns != size:
            raise TopologyError(
                f"{name}: grid shape {rows}x{columns} does not hold {size} peers: rows times columns must be {size}"
            )
        return rows, columns
    rows = next(rows for rows in range(int(size**0.5), 0, -1) if size % rows == 0)
    if rows == 1 and size > 3:
        line = "ring" if name == "torus" else "line"
        raise TopologyError(
            f"{name}: size {size} is prime, which leaves only a {line}: choose another size, "
            f"or grid shape 1x{size} if a {line} is what you want"
        )
    return rows, size // rows


def _draw_regular(size: int, degree: int, generator: random.Random) -> nx.Graph[int]:
    graph: nx.Graph[int]
    if degree == 2:  # connected and 2-regular is one cycle, which a plain draw seldom is
        order = generator.sample(range(size), size)
        graph = nx.Graph([*pairwise(order), (order[-1], order[0])])
    elif 2 * degree >= size:  # networkx takes minutes when nearly everyone is joined: draw who is not
        graph = nx.complement(nx.random_regular_graph(size - 1 - degree, size, seed=generator))
    else:
        graph = nx.random_regular_graph(degree, size, seed=generator)
    return graph
