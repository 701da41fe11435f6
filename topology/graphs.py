"""A graph as a list of edges, and the fixed graphs that need no chance.

A graph is a function of the number of peers, of the parameters in its name (specs.py) and, if it has one, the graph
seed; a new one is such a function and one line in `FIXED`. Nodes are the ranks 0..size-1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from dpeer.exceptions import TopologyError

Ranks = NDArray[np.int64]

MOST_EDGES = 5_000_000
"""The most edges of a graph that is built."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph as a list of its edges.

    Attributes:
        sender: One end of each edge; the sending one if the graph is directed, (edges,).
        receiver: The other end, (edges,).
        directed: Whether an edge carries bodies one way only. Otherwise each is listed once.
        parameters: They define the graph together with its name and size; canonical JSON.
        weights: The weight of each edge in the mixing matrix, (edges,); None for those of a weights rule.
        circulant: Whether each peer sends to the ranks that are the same steps (modulo size) after its own.
    """

    size: int
    sender: Ranks
    receiver: Ranks
    directed: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)
    weights: NDArray[np.float64] | None = None
    circulant: bool = False

    @classmethod
    def of(cls, graph: nx.Graph[int], parameters: dict[str, Any] | None = None) -> Graph:
        """The edges of an undirected networkx graph whose nodes are the ranks."""
        ends = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
        return cls(len(graph), ends[:, 0], ends[:, 1], parameters=parameters or {})

    @classmethod
    def of_steps(cls, size: int, steps: Any, *, directed: bool = False) -> Graph:
        """The circulant graph in which each peer sends to the ranks that are these steps after its own."""
        steps = np.unique(np.asarray(steps, dtype=np.int64) % size)
        sender = np.repeat(np.arange(size), len(steps))
        receiver = (sender + np.tile(steps, size)) % size
        once = slice(None) if directed else sender < receiver
        return cls(size, sender[once], receiver[once], directed, circulant=True)

    def messages(self) -> tuple[Ranks, Ranks]:
        """Sender and receiver of every message of a round: an undirected edge carries two."""
        if self.directed:
            return self.sender, self.receiver
        return np.concatenate([self.sender, self.receiver]), np.concatenate([self.receiver, self.sender])

    def is_connected(self) -> bool:
        """Whether an undirected graph joins everyone."""
        shape = (self.size, self.size)
        edges = coo_array((np.ones(len(self.sender)), (self.sender, self.receiver)), shape=shape)
        return int(connected_components(edges.tocsr(), directed=False)[0]) == 1


def ring(size: int) -> Graph:
    """Each peer is joined to the one before and the one after it."""
    return Graph.of_steps(size, [1, -1])


def grid(size: int, grid_shape: tuple[int, int] | None = None) -> Graph:
    """Rows and columns, rank = row * columns + column; open at the borders."""
    return _lattice("grid", size, grid_shape)


def torus(size: int, grid_shape: tuple[int, int] | None = None) -> Graph:
    """A grid whose borders are joined; in a dimension of 2 that would double an edge, so nothing is added."""
    return _lattice("torus", size, grid_shape)


def exponential(size: int) -> Graph:
    """Rank i is joined to i + 2^k and i - 2^k for every 2^k < size (the papers' Definition 1: symmetric)."""
    powers = powers_of_two(size)
    return Graph.of_steps(size, [*powers, *(-step for step in powers)])


def exponential_directed(size: int) -> Graph:
    """Rank i sends to i + 2^k for every 2^k < size: ceil(log2 size) messages a round."""
    return Graph.of_steps(size, powers_of_two(size), directed=True)


def full(size: int) -> Graph:
    """Everyone is joined to everyone."""
    if (edges := size * (size - 1) // 2) > MOST_EDGES:
        raise TopologyError(
            f"full: size {size} makes {edges:,} edges, and at most {MOST_EDGES:,} are built: choose less"
        )
    return Graph.of_steps(size, np.arange(1, size))


def star(size: int) -> Graph:
    """Everyone is joined to rank 0."""
    others = np.arange(1, size)
    return Graph(size, np.zeros_like(others), others)


def hypercube(size: int) -> Graph:
    """Ranks that differ in one binary digit are joined: log2 size neighbors each."""
    if size & (size - 1):
        below = 1 << (size.bit_length() - 1)
        raise TopologyError(f"hypercube: size {size} is not a power of two: choose {below} or {2 * below}")
    one = np.tile(np.arange(size), size.bit_length() - 1)
    other = one ^ np.repeat(powers_of_two(size), size)
    return Graph(size, one[one < other], other[one < other])


FIXED: dict[str, Callable[..., Graph]] = {
    "ring": ring,
    "grid": grid,
    "torus": torus,
    "exponential": exponential,
    "exponential-directed": exponential_directed,
    "hypercube": hypercube,
    "full": full,
    "star": star,
}


def powers_of_two(size: int) -> list[int]:
    """The powers of two below `size`, from 1: ceil(log2 size) of them."""
    return [1 << k for k in range((size - 1).bit_length())]


def _lattice(name: str, size: int, shape: tuple[int, int] | None) -> Graph:
    rows, columns = shape or _nearly_square(name, size)
    if rows < 1 or columns < 1 or rows * columns != size:
        raise TopologyError(f"{name}:{rows}x{columns} does not hold {size} peers: rows times columns must be {size}")
    ranks = np.arange(size).reshape(rows, columns)
    joined = [(ranks[:-1], ranks[1:]), (ranks[:, :-1], ranks[:, 1:])]
    if name == "torus" and rows > 2:
        joined.append((ranks[-1], ranks[0]))
    if name == "torus" and columns > 2:
        joined.append((ranks[:, -1], ranks[:, 0]))
    one, other = (np.concatenate([side.ravel() for side in sides]) for sides in zip(*joined, strict=True))
    return Graph(size, one, other, parameters={"grid_shape": [rows, columns]})


def _nearly_square(name: str, size: int) -> tuple[int, int]:
    """The most nearly square shape with no more rows than columns."""
    rows = next(rows for rows in range(int(size**0.5), 0, -1) if size % rows == 0)
    if rows == 1 and size > 3:
        line = "ring" if name == "torus" else "line"
        raise TopologyError(
            f"{name}: size {size} is prime, which leaves only a {line}: choose another size, or the {line} itself by "
            f"{name}:1x{size}"
        )
    return rows, size // rows


def _shape(text: str) -> tuple[int, int]:
    rows, _, columns = text.lower().partition("x")
    return _whole(rows), _whole(columns)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


@dataclass(frozen=True)
class Form:
    """How a graph's parameters are written behind its name.

    Attributes:
        words: The form, as the help prints it.
        example: A name with parameters.
        reads: By parameter, in their order, what reads it.
    """

    words: str
    example: str
    reads: Mapping[str, Callable[[str], Any]]


FORMS: Mapping[str, Form] = {
    "grid": Form("grid:ROWSxCOLUMNS", "grid:2x4", {"grid_shape": _shape}),
    "torus": Form("torus:ROWSxCOLUMNS", "torus:3x4", {"grid_shape": _shape}),
    "random-regular": Form("random-regular:DEGREE", "random-regular:4", {"degree": _whole}),
    "small-world": Form("small-world:DEGREE,PROBABILITY", "small-world:4,0.1", {"degree": _whole, "rewire": float}),
    "erdos-renyi": Form("erdos-renyi:PROBABILITY", "erdos-renyi:0.4", {"edge_probability": float}),
    "fresh": Form("fresh:K", "fresh:4", {"fresh_neighbors": _whole}),
    "fresh-directed": Form("fresh-directed:K", "fresh-directed:4", {"fresh_neighbors": _whole}),
}
"""The graphs that have parameters; each parameter may be left out."""

_COMMA = re.compile(r",(?!\s*[\d.])")
"""Where a list of names is parted: a number behind a comma belongs to the name before it."""


def split_names(text: str) -> list[str]:
    """The names of a list with commas, in which parameters may have commas, too: ring,small-world:4,0.1."""
    return [part.strip() for part in _COMMA.split(text)]


def parsed(spec: str) -> tuple[str, dict[str, Any]]:
    """The name of a graph, and the parameters that stand behind it, by the arguments of its function.

    Raises:
        TopologyError: They are not as the graph has them.
    """
    kind, colon, text = spec.partition(":")
    if not colon:
        return kind, {}
    if (form := FORMS.get(kind)) is None:
        raise TopologyError(f"topology {spec!r}: {kind} has no parameters: leave them out")
    parts = text.split(",")
    try:
        if len(parts) > len(form.reads):
            raise ValueError(text)
        return kind, {name: read(part.strip()) for (name, read), part in zip(form.reads.items(), parts, strict=False)}
    except ValueError:
        raise TopologyError(f"topology {spec!r}: write {form.words}, for example {form.example}") from None
