"""`build` and the topologies it makes: a graph, its weights rule and a mixing matrix for each round."""

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

from dpeer.exceptions import TopologyError, UnknownName
from dpeer.topology.graph_types import Graph, GraphOptions
from dpeer.topology.graphs import GRAPHS
from dpeer.topology.mixing_matrix import (
    CONNECTED,
    WEIGHT_RULES,
    MixingMatrix,
    check_mixing,
    check_stochastic,
    component_count,
    mixing_matrix,
)
from dpeer.topology.neighborhood import Neighborhood, check_rank
from dpeer.topology.time_varying_graphs import TIME_VARYING, TimeVaryingGraph
from dpeer.topology.user_graphs import PREFIX, file_graph, is_function, plugin_graph, shown

TOPOLOGIES: tuple[str, ...] = (*GRAPHS, *TIME_VARYING)
"""The names `build` knows; besides, `file:PATH` and `FILE.py:FUNCTION`."""

WEIGHTS: tuple[str, ...] = tuple(WEIGHT_RULES)
"""The names of the weights rules `build` knows."""

LARGEST_SIZE = 100_000

KEPT_ROUNDS = 64
"""Rounds kept in memory: peers of one process are a few rounds apart."""

_OWN = "own"
"""The weights rule of a graph that brings the weights of its edges."""

_PATIENCE = 1000
_AT_ONCE = 32


@dataclass(frozen=True)
class Topology:
    """A graph with its mixing matrix; make one with `build`. Equal when defined alike.

    Attributes:
        name: The graph's name, one of `TOPOLOGIES`, `file:NAME`, or `FILE.py:FUNCTION`.
        size: The number of peers.
        weights_rule: One of `WEIGHTS`, or "own" for a graph that brings its weights.
        parameters: The graph's other parameters, JSON-able and canonical: `{"grid_shape": [2, 4]}`,
            `{"degree": 4, "graph_seed": 0}`, or empty.
        directed: Whether peers may send to peers they do not receive from.
        mixing: The mixing matrix.
    """

    name: str
    size: int
    weights_rule: str
    parameters: dict[str, Any] = field(hash=False)
    directed: bool
    mixing: MixingMatrix = field(compare=False, repr=False)

    period = 1
    """After how many rounds the graph repeats."""

    doubly_stochastic = True
    """Whether every matrix is doubly stochastic, so that the average over the peers is kept."""

    @property
    def weights(self) -> NDArray[np.float64]:
        """W as a new dense array, (size, size): W[i, j] multiplies the body of j in receiver i's sum."""
        return self.mixing.sparse.toarray()

    @property
    def edges(self) -> list[list[int]]:
        """The edges: sorted [i, j] with i < j, or sorted [sender, receiver] when directed."""
        return self.mixing.edges(directed=self.directed)

    @cached_property
    def digest(self) -> str:
        """A short hash of the edges, and of weights that the user brings; it must be equal on all peers."""
        own = self.mixing.sparse.data.tobytes() if self.weights_rule == _OWN else b""
        return hashlib.sha256(json.dumps(self.edges).encode() + own).hexdigest()[:16]

    def mixing_at(self, number: int) -> MixingMatrix:
        """The mixing matrix of round `number`; here the same in every round."""
        return self.mixing

    def at(self, number: int, rank: int) -> Neighborhood:
        """See `Graphs.at`; the same in every round."""
        check_rank(rank, self.size)
        return self.mixing.neighborhood(rank)

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """See `Graphs.connections`; the same however many the rounds."""
        return self.at(0, rank).others


@dataclass(frozen=True)
class TimeVaryingTopology:
    """A graph and a mixing matrix for every round; make one with `build`. Equal when defined alike.

    Attributes:
        name: The graph's name, one of `TOPOLOGIES`.
        size: The number of peers.
        weights_rule: One of `WEIGHTS`.
        parameters: The graphs' other parameters, JSON-able and canonical.
        graphs: How a round's graph is drawn.
    """

    name: str
    size: int
    weights_rule: str
    parameters: dict[str, Any] = field(hash=False)
    graphs: TimeVaryingGraph = field(compare=False, repr=False)
    _mixings: dict[int, MixingMatrix] = field(default_factory=dict, compare=False, repr=False)
    _unions: dict[int, MixingMatrix] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.period  # noqa: B018 - refuses wrong weights or graphs now

    @cached_property
    def period(self) -> int:
        """After how many rounds the graphs repeat; where they never do, how many of the first are taken together.

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
            together = together + mixing.sparse
            sent += float(mixing.messages()[0].mean())
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
        """A short hash of the edges of a period; it must be equal on all peers."""
        edges = [self.edges_at(number) for number in range(self.period)]
        return hashlib.sha256(json.dumps(edges).encode()).hexdigest()[:16]

    def mixing_at(self, number: int) -> MixingMatrix:
        """The mixing matrix of round `number`."""
        if self.graphs.period is not None:
            number %= self.graphs.period
        if number not in self._mixings:
            mixing = mixing_matrix(self.graphs.draw(number), self.weights_rule, self.name)
            check_stochastic(mixing.sparse, columns=self.doubly_stochastic)
            if len(self._mixings) >= KEPT_ROUNDS:
                del self._mixings[next(iter(self._mixings))]  # the one kept longest
            self._mixings[number] = mixing
        return self._mixings[number]

    def edges_at(self, number: int) -> list[list[int]]:
        """The edges of round `number`: sorted [i, j] with i < j, or [sender, receiver] when directed."""
        return self.mixing_at(number).edges(directed=self.directed)

    def weights_at(self, number: int) -> NDArray[np.float64]:
        """The mixing matrix of round `number` as a new dense array, (size, size)."""
        return self.mixing_at(number).sparse.toarray()

    def at(self, number: int, rank: int) -> Neighborhood:
        """See `Graphs.at`."""
        check_rank(rank, self.size)
        return self.mixing_at(number).neighborhood(rank)

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """See `Graphs.connections`."""
        check_rank(rank, self.size)
        if rounds not in self._unions:
            self._unions[rounds] = self._union(rounds)
        return self._unions[rounds].neighborhood(rank).others

    def _union(self, rounds: int) -> MixingMatrix:
        """A matrix with an entry for each edge of the rounds."""
        distinct = rounds if self.graphs.period is None else min(rounds, self.graphs.period)
        together = csr_array((self.size, self.size), dtype=np.float64)
        for first in range(0, distinct, _AT_ONCE):
            graphs = [self.graphs.draw(number) for number in range(first, min(first + _AT_ONCE, distinct))]
            senders, receivers = zip(*(graph.messages() for graph in graphs), strict=True)
            ends = np.concatenate(receivers), np.concatenate(senders)
            more = coo_array((np.ones(len(ends[0])), ends), shape=(self.size, self.size))
            together = csr_array(together + more.tocsr())
            if together.nnz == self.size * (self.size - 1):
                break  # everyone has met everyone
        return MixingMatrix(together)


AnyTopology = Topology | TimeVaryingTopology


def build(
    name: str,
    size: int,
    *,
    weights: str = "metropolis",
    grid_shape: tuple[int, int] | None = None,
    degree: int = 4,
    graph_seed: int = 0,
    rewire: float = 0.1,
    edge_probability: float | None = None,
    fresh_neighbors: int = 4,
) -> AnyTopology:
    """Build a topology by name; its matrices are checked to be stochastic and to connect everyone.

    Args:
        name: One of `TOPOLOGIES`, `file:PATH` (an edge list), or `FILE.py:FUNCTION`, which is called with
            the size and the graph seed.
        size: The number of peers, at least 2.
        weights: One of `WEIGHTS`. A directed graph takes `uniform` whatever the name here: the others are
            not defined on it; a function's graph whose edges have weights keeps those.
        grid_shape: (rows, columns), for `grid` and `torus`; the most nearly square one by default.
        degree: Neighbors of each peer, for `random-regular` and (before rewiring) `small-world`.
        graph_seed: The seed of random graphs, at least 0. Public: every peer draws the same graph.
        rewire: The probability with which `small-world` moves an edge, 0 to 1.
        edge_probability: Of each edge of `erdos-renyi`, 0 to 1; by default 2 ln(size) / size.
        fresh_neighbors: Neighbors that `fresh-neighbors` draws for each peer in every round.

    Options that a graph does not use are ignored, so that one set of options serves several graphs.

    Raises:
        UnknownName: If `name` or `weights` is not a valid name.
        TopologyError: If no such graph of this size exists, or the weights do not suit it.
    """
    users = name.startswith(PREFIX) or is_function(name)
    if name not in TOPOLOGIES and not users:
        raise UnknownName("topology", name, (*TOPOLOGIES, f"{PREFIX}PATH"))
    if weights not in WEIGHT_RULES:
        raise UnknownName("weights rule", weights, WEIGHTS)
    if size < 2:
        raise TopologyError(f"size {size}: a topology joins at least 2 peers")
    if size > LARGEST_SIZE:
        raise TopologyError(f"size {size}: graphs are built of at most {LARGEST_SIZE:,} peers")
    options = GraphOptions(size, grid_shape, degree, graph_seed, rewire, edge_probability, fresh_neighbors)
    if name in TIME_VARYING:
        return _time_varying(name, options, weights)
    if name in GRAPHS:
        graph = GRAPHS[name](options)
    elif name.startswith(PREFIX):
        graph = file_graph(name, size)
    else:
        graph = plugin_graph(name, size, graph_seed)
    return _fixed(shown(name) if users else name, graph, weights)


def _fixed(label: str, graph: Graph, weights: str) -> Topology:
    mixing = mixing_matrix(graph, weights, label)
    check_mixing(mixing.sparse, symmetric=not graph.directed)
    rule = "uniform" if graph.directed else weights if graph.weights is None else _OWN
    return Topology(label, graph.size, rule, graph.parameters, graph.directed, mixing)


def _time_varying(name: str, options: GraphOptions, weights: str) -> TimeVaryingTopology:
    plan = TIME_VARYING[name](options)
    directed = plan.draw(0).directed
    if not directed and weights in CONNECTED:
        raise TopologyError(
            f"weights {weights}: {name} has another graph every round, and these weights suit one: use metropolis"
        )
    return TimeVaryingTopology(name, options.size, "uniform" if directed else weights, plan.parameters, plan)
