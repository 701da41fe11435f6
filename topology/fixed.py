"""A topology that is the same in every round, and the one way to build one from its name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpeer.exceptions import TopologyError, UnknownName
from dpeer.topology.graphs import GRAPHS, Request
from dpeer.topology.neighborhood import Neighborhood, Row, check_rank
from dpeer.topology.weights import WEIGHT_RULES, check

TOPOLOGIES: tuple[str, ...] = tuple(GRAPHS)
"""The names `build` knows."""

WEIGHTS: tuple[str, ...] = tuple(WEIGHT_RULES)
"""The names of the weights rules `build` knows."""


@dataclass(frozen=True)
class Topology:
    """A graph with its mixing matrix; make one with `build`. Equal when defined alike.

    Attributes:
        name: The graph's name, one of `TOPOLOGIES`.
        size: The number of peers.
        weights_rule: How the matrix was made, one of `WEIGHTS`.
        parameters: What else defines the graph, JSON-able and canonical: `{"grid_shape": [2, 4]}`,
            `{"degree": 4, "graph_seed": 0}`, or empty.
        directed: Whether peers may send to peers they do not receive from.
        edges: Sorted [i, j] with i < j, or sorted [sender, receiver] when directed.
        matrix: The mixing matrix W, (size, size), sparse and read-only; see `weights`.
    """

    name: str
    size: int
    weights_rule: str
    parameters: dict[str, Any] = field(hash=False)
    directed: bool
    edges: list[list[int]] = field(hash=False, repr=False)
    matrix: csr_array[np.float64] = field(compare=False, repr=False)
    _columns: csr_array[np.float64] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_columns", csr_array(self.matrix.T))
        self._columns.sort_indices()
        for matrix in (self.matrix, self._columns):
            for array in (matrix.data, matrix.indices, matrix.indptr):
                array.setflags(write=False)

    @property
    def weights(self) -> NDArray[np.float64]:
        """W as a new dense array, (size, size): W[i, j] multiplies what j sends in receiver i's sum."""
        return self.matrix.toarray()

    def at(self, number: int, rank: int) -> Neighborhood:
        """The graph of round `number` (from 0) as `rank` sees it; here the same in every round.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        check_rank(rank, self.size)
        return Neighborhood(
            rank=rank,
            row=Row(rank, _entries(self.matrix, rank)),
            in_neighbors=tuple(other for other in _entries(self.matrix, rank) if other != rank),
            out_neighbors=tuple(other for other in _entries(self._columns, rank) if other != rank),
        )

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """Every rank that `rank` sends to or receives from, sorted; the same however many the rounds.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        around = self.at(0, rank)
        return tuple(sorted({*around.in_neighbors, *around.out_neighbors}))


def build(
    name: str,
    size: int,
    *,
    weights: str = "metropolis",
    grid_shape: tuple[int, int] | None = None,
    degree: int = 4,
    graph_seed: int = 0,
) -> Topology:
    """Build a topology by name; its matrix is checked to be doubly stochastic and to connect everyone.

    Args:
        name: One of `TOPOLOGIES`.
        size: The number of peers, at least 2.
        weights: One of `WEIGHTS`. A directed graph takes `uniform` whatever is asked for: `metropolis` is
            not defined on it.
        grid_shape: (rows, columns), for `grid` and `torus`; the most nearly square one by default.
        degree: Neighbors of each peer, for `random-regular`.
        graph_seed: What `random-regular` is drawn from; the same seed gives the same graph.

    Options that a graph does not use are ignored, so that one set of options serves several graphs.

    Raises:
        UnknownName: If `name` or `weights` is not a valid name.
        TopologyError: If there is no such graph of this size, or the weights do not suit it.
    """
    if name not in GRAPHS:
        raise UnknownName("topology", name, TOPOLOGIES)
    if weights not in WEIGHT_RULES:
        raise UnknownName("weights rule", weights, WEIGHTS)
    if size < 2:
        raise TopologyError(f"size {size}: a topology joins at least 2 peers")
    drawing = GRAPHS[name](Request(size, grid_shape, degree, graph_seed))
    graph = drawing.graph
    graph.name = f"{name} of {size} peers"
    directed = graph.is_directed()
    rule = "uniform" if directed else weights
    matrix = WEIGHT_RULES[rule](graph)
    check(matrix, symmetric=not directed)
    edges = sorted([i, j] if directed or i < j else [j, i] for i, j in graph.edges)
    return Topology(name, size, rule, drawing.parameters, directed, edges, matrix)


def _entries(matrix: csr_array[np.float64], row: int) -> dict[int, float]:
    """The nonzero entries of one row, column -> value, in column order."""
    span = slice(matrix.indptr[row], matrix.indptr[row + 1])
    pairs = zip(matrix.indices[span].tolist(), matrix.data[span].tolist(), strict=True)
    return {column: value for column, value in pairs if value != 0.0}
