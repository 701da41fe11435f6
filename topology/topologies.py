"""A topology: a graph, its weights rule and a mixing matrix for each round, fixed or time-varying."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from dpeer.exceptions import TopologyError
from dpeer.topology.graph_types import CirculantGraph
from dpeer.topology.mixing_matrix import (
    CirculantMatrix,
    Matrix,
    Neighborhoods,
    as_sparse,
    check_stochastic,
    component_count,
    messages,
)
from dpeer.topology.neighborhood import Neighborhood, check_rank
from dpeer.topology.time_varying_graphs import TimeVaryingGraph
from dpeer.topology.weights import mixing_matrix


@dataclass(frozen=True)
class Topology:
    """A graph with its mixing matrix; make one with `build`. Equal when defined alike.

    Attributes:
        name: The graph's name, one of `TOPOLOGIES`, `file:NAME`, or `FILE.py:FUNCTION`.
        size: The number of peers.
        weights_rule: How the matrix was made, one of `WEIGHTS`, or `OWN`.
        parameters: What else defines the graph, JSON-able and canonical: `{"grid_shape": [2, 4]}`,
            `{"degree": 4, "graph_seed": 0}`, or empty.
        directed: Whether peers may send to peers they do not receive from.
        mixing: The mixing matrix, written down or as a circulant.
    """

    name: str
    size: int
    weights_rule: str
    parameters: dict[str, Any] = field(hash=False)
    directed: bool
    mixing: CirculantMatrix | Matrix = field(compare=False, repr=False)

    period = 1
    """After how many rounds the graph repeats."""

    doubly_stochastic = True
    """Whether every matrix is doubly stochastic, so that the average over the peers is kept."""

    @cached_property
    def matrix(self) -> csr_array[np.float64]:
        """The mixing matrix W, (size, size), sparse and read-only; see `weights`."""
        return self._exchange.matrix

    @property
    def weights(self) -> NDArray[np.float64]:
        """W as a new dense array, (size, size): W[i, j] multiplies what j sends in receiver i's sum."""
        return self.matrix.toarray()

    @property
    def edges(self) -> list[list[int]]:
        """The edges: sorted [i, j] with i < j, or sorted [sender, receiver] when directed."""
        return self._exchange.edges(directed=self.directed)

    @cached_property
    def digest(self) -> str:
        """A short hash of the edges, and of weights that a solver or the user found; it must be equal on all peers."""
        solved = self.matrix.data.tobytes() if self.weights_rule in ("fastest", OWN) else b""
        return hashlib.sha256(json.dumps(self.edges).encode() + solved).hexdigest()[:16]

    def mixing_at(self, number: int) -> CirculantMatrix | Matrix:
        """The mixing matrix of round `number`."""
        return self.mixing

    def at(self, number: int, rank: int) -> Neighborhood:
        """The graph of round `number` (from 0) as `rank` sees it; here the same in every round.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        check_rank(rank, self.size)
        return self._exchange.of(rank)

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """Every rank that `rank` sends to or receives from, sorted; the same however many the rounds.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        around = self.at(0, rank)
        return tuple(sorted({*around.in_neighbors, *around.out_neighbors}))

    @cached_property
    def _exchange(self) -> Neighborhoods:
        return Neighborhoods(as_sparse(self.mixing))


OWN = "own"
"""The weights rule of a graph that brings the weights of its edges."""

_KEPT = 64
"""Rounds kept in memory: peers of one process are a few rounds apart."""

_PATIENCE = 1000
_AT_ONCE = 32


@dataclass(frozen=True)
class TimeVaryingTopology:
    """A graph and a mixing matrix for every round; make one with `build`. Equal when defined alike.

    Attributes:
        name: The graph's name, one of `TOPOLOGIES`.
        size: The number of peers.
        weights_rule: How each round's matrix is made.
        parameters: What else defines the graphs, JSON-able and canonical.
        graphs: How a round's graph is drawn.
    """

    name: str
    size: int
    weights_rule: str
    parameters: dict[str, Any] = field(hash=False)
    graphs: TimeVaryingGraph = field(compare=False, repr=False)
    _mixings: dict[int, CirculantMatrix | Matrix] = field(default_factory=dict, compare=False, repr=False)
    _exchanges: dict[int, Neighborhoods] = field(default_factory=dict, compare=False, repr=False)
    _union: dict[int, Neighborhoods] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.period  # noqa: B018 - refuses wrong weights or graphs now

    @cached_property
    def period(self) -> int:
        """After how many rounds the graphs repeat; where they never do, how many of the first are looked at together.

        Those are as many as connect everyone, and as it takes a peer to send log2(size) messages: the fewest after
        which anybody can hold the exact average.

        Raises:
            TopologyError: If a thousand rounds do not connect everyone.
        """
        if self.graphs.period is not None:
            return self.graphs.period
        together = csr_array((self.size, self.size), dtype=np.float64)
        sent = 0.0
        for number in range(_PATIENCE):
            mixing = self.mixing_at(number)
            together = together + as_sparse(mixing)
            sent += float(messages(mixing).mean())
            if sent >= math.log2(self.size) and component_count(together) == 1:
                return number + 1
        raise TopologyError(f"{self.name}: {self.size} peers are not connected by {_PATIENCE} rounds together")

    @property
    def doubly_stochastic(self) -> bool:
        """Whether every matrix is doubly stochastic, so that the average over the peers is kept."""
        return self.graphs.doubly_stochastic

    @cached_property
    def directed(self) -> bool:
        """Whether peers may send to peers they do not receive from."""
        return self.graphs.draw(0).directed

    @cached_property
    def digest(self) -> str:
        """A short hash of the edges of a period, which all peers must have drawn alike."""
        edges = [self.edges_at(number) for number in range(self.period)]
        return hashlib.sha256(json.dumps(edges).encode()).hexdigest()[:16]

    def mixing_at(self, number: int) -> CirculantMatrix | Matrix:
        """The mixing matrix of round `number`."""
        if self.graphs.period is not None:
            number %= self.graphs.period
        if number not in self._mixings:
            mixing = mixing_matrix(self.graphs.draw(number), self.weights_rule, self.name)
            if not isinstance(mixing, CirculantMatrix):
                check_stochastic(mixing, columns=self.doubly_stochastic)
            _keep(self._mixings, number, mixing)
        return self._mixings[number]

    def edges_at(self, number: int) -> list[list[int]]:
        """The edges of round `number`: sorted [i, j] with i < j, or [sender, receiver] when directed."""
        return self._exchange(number).edges(directed=self.directed)

    def weights_at(self, number: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The mixing matrix of round `number` as a new dense array, (size, size)."""
        return self._exchange(number).matrix.toarray()

    def at(self, number: int, rank: int) -> Neighborhood:
        """The graph of round `number` (from 0) as `rank` sees it.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        check_rank(rank, self.size)
        return self._exchange(number).of(rank)

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """Every rank that `rank` sends to or receives from in rounds 0 to `rounds` - 1, sorted.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        check_rank(rank, self.size)
        if rounds not in self._union:
            self._union[rounds] = Neighborhoods(self._union_matrix(rounds))
        around = self._union[rounds].of(rank)
        return tuple(sorted({*around.in_neighbors, *around.out_neighbors}))

    def _union_matrix(self, rounds: int) -> Matrix:
        """A matrix with an entry for each edge of the rounds."""
        distinct = rounds if self.graphs.period is None else min(rounds, self.graphs.period)
        together = csr_array((self.size, self.size), dtype=np.float64)
        for first in range(0, distinct, _AT_ONCE):
            graphs = [self.graphs.draw(number) for number in range(first, min(first + _AT_ONCE, distinct))]
            links = [graph.edge_list() if isinstance(graph, CirculantGraph) else graph for graph in graphs]
            senders, receivers = zip(*(graph.messages() for graph in links), strict=True)
            ends = np.concatenate(receivers), np.concatenate(senders)
            more = coo_array((np.ones(len(ends[0])), ends), shape=(self.size, self.size))
            together = csr_array(together + more.tocsr())
            if together.nnz == self.size * (self.size - 1):
                break  # everyone has met everyone
        return together

    def _exchange(self, number: int) -> Neighborhoods:
        if self.graphs.period is not None:
            number %= self.graphs.period
        if number not in self._exchanges:
            _keep(self._exchanges, number, Neighborhoods(as_sparse(self.mixing_at(number))))
        return self._exchanges[number]


def _keep(kept: dict[int, Any], number: int, value: Any) -> None:
    kept[number] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]  # the one kept longest
