"""Fixed graphs by name.

A new graph is one function from a `GraphOptions` to a `BuiltGraph` and one line in `GRAPHS`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpeer.exceptions import TopologyError
from dpeer.topology.graph_types import BuiltGraph, CirculantGraph, EdgeList, GraphOptions
from dpeer.topology.random_graphs import erdos_renyi, random_regular, small_world


def ring(request: GraphOptions) -> BuiltGraph:
    """Each peer is joined to the one before and the one after it."""
    return BuiltGraph(CirculantGraph.of(request.size, [1, -1]))


def grid(request: GraphOptions) -> BuiltGraph:
    """Rows and columns, rank = row * columns + column; open at the borders."""
    return _lattice("grid", request, periodic=False)


def torus(request: GraphOptions) -> BuiltGraph:
    """A grid whose borders are joined; in a dimension of 2 that would double an edge, so nothing is added."""
    return _lattice("torus", request, periodic=True)


def exponential(request: GraphOptions) -> BuiltGraph:
    """Rank i is joined to i + 2^k and i - 2^k for every 2^k < size (the papers' Definition 1: symmetric)."""
    powers = powers_of_two(request.size)
    return BuiltGraph(CirculantGraph.of(request.size, [*powers, *(-step for step in powers)]))


def exponential_directed(request: GraphOptions) -> BuiltGraph:
    """Rank i sends to i + 2^k for every 2^k < size: ceil(log2 size) messages a round."""
    return BuiltGraph(CirculantGraph.of(request.size, powers_of_two(request.size), directed=True))


def full(request: GraphOptions) -> BuiltGraph:
    """Everyone is joined to everyone."""
    return BuiltGraph(CirculantGraph.of(request.size, np.arange(1, request.size)))


def star(request: GraphOptions) -> BuiltGraph:
    """Everyone is joined to rank 0."""
    others = np.arange(1, request.size)
    return BuiltGraph(EdgeList(request.size, np.zeros_like(others), others))


def hypercube(request: GraphOptions) -> BuiltGraph:
    """Ranks that differ in one binary digit are joined: log2 size neighbors each."""
    size = request.size
    if size & (size - 1):
        below = 1 << (size.bit_length() - 1)
        raise TopologyError(f"hypercube: size {size} is not a power of two: choose {below} or {2 * below}")
    # networkx names the nodes by their digits, one by one; flipping a digit of the rank is the same.
    one = np.tile(np.arange(size), size.bit_length() - 1)
    other = one ^ np.repeat([1 << k for k in range(size.bit_length() - 1)], size)
    return BuiltGraph(EdgeList(size, one[one < other], other[one < other]))


GRAPHS: dict[str, Callable[[GraphOptions], BuiltGraph]] = {
    "ring": ring,
    "grid": grid,
    "torus": torus,
    "exponential": exponential,
    "exponential-directed": exponential_directed,
    "hypercube": hypercube,
    "full": full,
    "star": star,
    "random-regular": random_regular,
    "small-world": small_world,
    "erdos-renyi": erdos_renyi,
}


def powers_of_two(size: int) -> list[int]:
    """The powers of two below `size`, from 1: ceil(log2 size) of them."""
    return [1 << k for k in range((size - 1).bit_length())]


def _lattice(name: str, request: GraphOptions, *, periodic: bool) -> BuiltGraph:
    rows, columns = _shape(name, request)
    ranks = np.arange(request.size).reshape(rows, columns)
    joined = [(ranks[:-1], ranks[1:]), (ranks[:, :-1], ranks[:, 1:])]
    if periodic and rows > 2:
        joined.append((ranks[-1], ranks[0]))
    if periodic and columns > 2:
        joined.append((ranks[:, -1], ranks[:, 0]))
    one, other = (np.concatenate([side.ravel() for side in sides]) for sides in zip(*joined, strict=True))
    return BuiltGraph(EdgeList(request.size, one, other), {"grid_shape": [rows, columns]})


def _shape(name: str, request: GraphOptions) -> tuple[int, int]:
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
