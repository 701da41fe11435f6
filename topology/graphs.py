"""Fixed graphs by name.

A new graph is one function from a `GraphOptions` to a `Graph` and one line in `GRAPHS`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpeer.exceptions import TopologyError
from dpeer.topology.graph_types import MOST_EDGES, Graph, GraphOptions
from dpeer.topology.random_graphs import erdos_renyi, random_regular, small_world


def ring(options: GraphOptions) -> Graph:
    """Each peer is joined to the one before and the one after it."""
    return Graph.circulant(options.size, [1, -1])


def grid(options: GraphOptions) -> Graph:
    """Rows and columns, rank = row * columns + column; open at the borders."""
    return _lattice("grid", options)


def torus(options: GraphOptions) -> Graph:
    """A grid whose borders are joined; in a dimension of 2 that would double an edge, so nothing is added."""
    return _lattice("torus", options)


def exponential(options: GraphOptions) -> Graph:
    """Rank i is joined to i + 2^k and i - 2^k for every 2^k < size (the papers' Definition 1: symmetric)."""
    powers = powers_of_two(options.size)
    return Graph.circulant(options.size, [*powers, *(-step for step in powers)])


def exponential_directed(options: GraphOptions) -> Graph:
    """Rank i sends to i + 2^k for every 2^k < size: ceil(log2 size) messages a round."""
    return Graph.circulant(options.size, powers_of_two(options.size), directed=True)


def full(options: GraphOptions) -> Graph:
    """Everyone is joined to everyone."""
    if (edges := options.size * (options.size - 1) // 2) > MOST_EDGES:
        raise TopologyError(
            f"full: size {options.size} makes {edges:,} edges, and at most {MOST_EDGES:,} are built: choose less"
        )
    return Graph.circulant(options.size, np.arange(1, options.size))


def star(options: GraphOptions) -> Graph:
    """Everyone is joined to rank 0."""
    others = np.arange(1, options.size)
    return Graph(options.size, np.zeros_like(others), others)


def hypercube(options: GraphOptions) -> Graph:
    """Ranks that differ in one binary digit are joined: log2 size neighbors each."""
    size = options.size
    if size & (size - 1):
        below = 1 << (size.bit_length() - 1)
        raise TopologyError(f"hypercube: size {size} is not a power of two: choose {below} or {2 * below}")
    one = np.tile(np.arange(size), size.bit_length() - 1)
    other = one ^ np.repeat(powers_of_two(size), size)
    return Graph(size, one[one < other], other[one < other])


GRAPHS: dict[str, Callable[[GraphOptions], Graph]] = {
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


def _lattice(name: str, options: GraphOptions) -> Graph:
    rows, columns = _shape(name, options)
    ranks = np.arange(options.size).reshape(rows, columns)
    joined = [(ranks[:-1], ranks[1:]), (ranks[:, :-1], ranks[:, 1:])]
    if name == "torus" and rows > 2:
        joined.append((ranks[-1], ranks[0]))
    if name == "torus" and columns > 2:
        joined.append((ranks[:, -1], ranks[:, 0]))
    one, other = (np.concatenate([side.ravel() for side in sides]) for sides in zip(*joined, strict=True))
    return Graph(options.size, one, other, parameters={"grid_shape": [rows, columns]})


def _shape(name: str, options: GraphOptions) -> tuple[int, int]:
    """The given shape, or the most nearly square one with no more rows than columns."""
    size = options.size
    if options.grid_shape is not None:
        rows, columns = options.grid_shape
        if rows < 1 or columns < 1 or rows * columns != size:
            raise TopologyError(
                f"{name}: grid shape {rows}x{columns} does not hold {size} peers: rows times columns must be {size}"
            )
        return rows, columns
    rows = next(rows for rows in range(int(size**0.5), 0, -1) if size % rows == 0)
    if rows == 1 and size > 3:
        line = "ring" if name == "torus" else "line"
        raise TopologyError(
            f"{name}: size {size} is prime, which leaves only a {line}: choose another size, or the {line} itself by "
            f"grid shape 1x{size}"
        )
    return rows, size // rows
