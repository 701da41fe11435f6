"""`build` and what it makes: the graph and the mixing matrix of every round."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpeer.exceptions import TopologyError, UnknownName
from dpeer.topology.graphs import FIXED, Graph, Ranks, parsed
from dpeer.topology.mixing_matrix import (
    CONNECTED,
    DECLARED,
    WEIGHT_RULES,
    MixingMatrix,
    check_graph,
    component_count,
    mixing_matrix,
    parse,
    spelled,
    stationary,
)
from dpeer.topology.neighborhood import Neighborhood, check_rank
from dpeer.topology.random_graphs import RANDOM, TIME_VARYING, TimeVaryingGraph
from dpeer.topology.user_graphs import PREFIX, file_graph, is_function, plugin_graph, shown

_FUNCTIONS: dict[str, Callable[..., Graph | TimeVaryingGraph]] = {**FIXED, **RANDOM, **TIME_VARYING}

TOPOLOGIES: tuple[str, ...] = tuple(_FUNCTIONS)
"""The names `build` knows, without parameters; besides, `file:PATH` and `FILE.py:FUNCTION`."""

WEIGHTS: tuple[str, ...] = (*WEIGHT_RULES, DECLARED)
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
    """A graph and a mixing matrix for every round; make one with `build`. Equal when defined alike.

    Attributes:
        name: The graph's name, one of `TOPOLOGIES`, `file:NAME`, or `FILE.py:FUNCTION`.
        label: The same with the parameters that it was asked for with.
        size: The number of peers.
        weights_rule: One of `WEIGHTS`, or "own" for a graph that brings its weights.
        parameters: The graph's other parameters, JSON-able and canonical: `{"grid_shape": [2, 4]}`,
            `{"degree": 4, "graph_seed": 0}`, or empty.
        directed: Whether peers may send to peers they do not receive from.
        drawn: How each round's graph is drawn; None for a graph that is the same in every round.
        declared: What each peer brings, by rank, with weights "declared"; else empty.
    """

    name: str
    label: str = field(compare=False)
    size: int
    weights_rule: str
    parameters: dict[str, Any] = field(hash=False)
    directed: bool
    drawn: TimeVaryingGraph | None = field(compare=False, repr=False)
    _matrices: dict[int, MixingMatrix] = field(compare=False, repr=False)
    declared: tuple[float, ...] = ()
    _met: dict[int, Ranks] = field(default_factory=dict, compare=False, repr=False)

    @property
    def changing(self) -> bool:
        """Whether rounds have different graphs."""
        return self.drawn is not None

    @property
    def doubly_stochastic(self) -> bool:
        """Whether every matrix is doubly stochastic, so that the average over the peers is kept."""
        return len({*self.declared}) <= 1 and self._keeps_mean

    @property
    def _keeps_mean(self) -> bool:
        """Whether the average over the peers is kept, by p with declared weights."""
        return self.drawn is None or self.drawn.doubly_stochastic

    @cached_property
    def agreement(self) -> NDArray[np.float64] | None:
        """The unit vector sqrt(p) of declared weights, (size,), which every `balanced` matrix keeps; None: constant."""
        return None if len({*self.declared}) <= 1 else np.sqrt(stationary(self.declared))

    @property
    def repeats(self) -> int | None:
        """After how many rounds the graphs repeat; None if they never do."""
        return 1 if self.drawn is None else self.drawn.period

    @cached_property
    def period(self) -> int:
        """After how many rounds the graphs repeat; where they never do, how many of the first are taken together.

        Those are as many as connect everyone, and as it takes a peer to send log2(size) messages: the fewest after
        which anybody can hold the exact average.

        Raises:
            TopologyError: If a thousand rounds do not connect everyone.
        """
        if self.repeats is not None:
            return self.repeats
        together = csr_array((self.size, self.size), dtype=np.float64)
        sent = 0.0
        for number in range(_PATIENCE):
            mixing = self.mixing_at(number)
            together = together + mixing.sparse
            sent += float(mixing.messages().mean())
            if sent >= math.log2(self.size) and component_count(together) == 1:
                return number + 1
        raise TopologyError(f"{self.name}: {self.size} peers are not connected by {_PATIENCE} rounds together")

    @property
    def weights(self) -> NDArray[np.float64]:
        """W as a new dense array, (size, size): W[i, j] multiplies the body of j in receiver i's sum; of round 0."""
        return self.weights_at(0)

    @property
    def edges(self) -> list[list[int]]:
        """The edges of round 0; see `edges_at`."""
        return self.edges_at(0)

    @cached_property
    def digest(self) -> str:
        """A short hash of the edges, and of weights that the user brings; it must be equal on all peers."""
        edges = [self.edges_at(number) for number in range(self.period)]
        own = self.mixing_at(0).sparse.data.tobytes() if self.weights_rule == _OWN else b""
        own += spelled(self.declared).encode() if self.declared else b""
        return hashlib.sha256(json.dumps(edges if self.changing else edges[0]).encode() + own).hexdigest()[:16]

    def mixing_at(self, number: int) -> MixingMatrix:
        """The mixing matrix of round `number`."""
        if self.repeats is not None:
            number %= self.repeats
        if number not in self._matrices:
            assert self.drawn is not None, "the matrix of a fixed graph is always there"
            if len(self._matrices) >= KEPT_ROUNDS:
                del self._matrices[next(iter(self._matrices))]  # the one kept longest
            graph = self.drawn.draw(number)
            self._matrices[number] = mixing_matrix(
                graph, self.weights_rule, self.name, columns=self._keeps_mean, declared=self.declared
            )
        return self._matrices[number]

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
        if self.drawn is None:
            return self.at(0, rank).others
        check_rank(rank, self.size)
        if rounds not in self._met:
            self._met[rounds] = self._pairs(self.drawn, rounds if self.repeats is None else min(rounds, self.repeats))
        pairs = self._met[rounds]
        first, end = np.searchsorted(pairs, [rank * self.size, (rank + 1) * self.size])
        return tuple((pairs[first:end] % self.size).tolist())

    def _pairs(self, drawn: TimeVaryingGraph, rounds: int) -> Ranks:
        """Every rank * size + other, of ranks that meet in the rounds; sorted."""
        found = np.zeros(0, dtype=np.int64)
        for first in range(0, rounds, _AT_ONCE):
            met = [found]
            for number in range(first, min(first + _AT_ONCE, rounds)):
                graph = drawn.draw(number)
                met += [graph.sender * self.size + graph.receiver, graph.receiver * self.size + graph.sender]
            found = np.unique(np.concatenate(met))
            if len(found) == self.size * (self.size - 1):
                break  # everyone has met everyone
        return found


def build(name: str, size: int, *, weights: str = "metropolis", graph_seed: int = 0) -> Topology:
    """Build a topology by name; its matrices are checked to be stochastic and to connect everyone.

    Args:
        name: One of `TOPOLOGIES`, perhaps with its parameters (small-world:4,0.1; see `FORMS`), `file:PATH` (an edge
            list), or `FILE.py:FUNCTION`, which is called with the size and the graph seed.
        size: The number of peers, at least 2.
        weights: One of `WEIGHTS`. A directed graph takes `uniform` whatever the name here: the others are
            not defined on it; a function's graph whose edges have weights keeps those. `declared` has a number above 0
            for each rank behind it: declared:400,20,30.
        graph_seed: The seed of random graphs, at least 0. Public: every peer draws the same graph.

    Raises:
        UnknownName: If `name` or `weights` is not a valid name.
        TopologyError: If no such graph of this size exists, or the weights do not suit it.
    """
    users = name.partition(":")[0] not in TOPOLOGIES and (name.startswith(PREFIX) or is_function(name))
    kind, parameters = (name, {}) if users else parsed(name)
    if kind not in TOPOLOGIES and not users:
        raise UnknownName("topology", name, (*TOPOLOGIES, f"{PREFIX}PATH"))
    if weights not in WEIGHT_RULES and weights.partition(":")[0] != DECLARED:
        raise UnknownName("weights rule", weights, WEIGHTS)
    if size < 2:
        raise TopologyError(f"size {size}: a topology joins at least 2 peers")
    if size > LARGEST_SIZE:
        raise TopologyError(f"size {size}: graphs are built of at most {LARGEST_SIZE:,} peers")
    declared = () if weights in WEIGHT_RULES else parse(weights, size)
    weights = DECLARED if declared else weights
    if users:
        graph = file_graph(name, size) if name.startswith(PREFIX) else plugin_graph(name, size, graph_seed)
        return _fixed(shown(name), shown(name), graph, weights, declared)
    if "graph_seed" in inspect.signature(_FUNCTIONS[kind]).parameters:
        if graph_seed < 0:  # Python's generator would take it for its absolute value
            raise TopologyError(f"{name}: graph seed {graph_seed}: choose 0 or more")
        parameters["graph_seed"] = graph_seed
    made = _FUNCTIONS[kind](size, **parameters)
    if isinstance(made, Graph):
        return _fixed(kind, name, made, weights, declared)
    return _changing(kind, name, size, made, weights, declared)


def _fixed(kind: str, label: str, graph: Graph, weights: str, declared: tuple[float, ...]) -> Topology:
    if declared:
        check_graph(graph)
    mixing = mixing_matrix(graph, weights, kind, declared=declared)
    if (parts := component_count(mixing.sparse)) > 1:
        raise TopologyError(f"the graph is not connected: {parts} groups of peers would never agree")
    rule = "uniform" if graph.directed else weights if graph.weights is None else _OWN
    return Topology(kind, label, graph.size, rule, graph.parameters, graph.directed, None, {0: mixing}, declared)


def _changing(
    kind: str, label: str, size: int, drawn: TimeVaryingGraph, weights: str, declared: tuple[float, ...]
) -> Topology:
    if declared:
        check_graph(drawn.draw(0))
    directed = drawn.draw(0).directed
    if not directed and weights in CONNECTED:
        raise TopologyError(
            f"weights {weights}: {kind} has another graph every round, and these weights suit one: use metropolis"
        )
    rule = "uniform" if directed else weights
    made = Topology(kind, label, size, rule, drawn.parameters, directed, drawn, {}, declared)
    made.period  # noqa: B018 - refuses wrong weights or graphs now
    return made
