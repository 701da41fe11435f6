"""`build` and what it makes: the graph and the mixing matrix of every round."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpeer.exceptions import TopologyError, UnknownName
from dpeer.topology.graphs import TIME_VARYING, TOPOLOGIES, Graph, Kind, parsed
from dpeer.topology.mixing_matrix import (
    CONNECTED,
    DECLARED,
    WEIGHT_RULES,
    MixingMatrix,
    check_graph,
    check_stochastic,
    component_count,
    mixing_matrix,
    parse,
    spelled,
    stationary,
)
from dpeer.topology.neighborhood import Neighborhood
from dpeer.topology.user_graphs import PREFIX, is_function, shown, user_graph

WEIGHTS: tuple[str, ...] = (*WEIGHT_RULES, DECLARED)
"""The names of the weights rules `build` knows."""

LARGEST_SIZE = 100_000

KEPT_ROUNDS = 64
"""Rounds kept in memory: peers of one process are a few rounds apart."""

_OWN = "own"
"""The weights rule of a graph that brings the weights of its edges."""

_PATIENCE = 1000


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
        changing: Whether rounds have different graphs.
        repeats: After how many rounds the graphs repeat; None if they never do.
        declared: What each peer brings, by rank, with weights "declared"; else empty.
        draw: Round number -> its graph.
    """

    name: str
    label: str = field(compare=False)
    size: int
    weights_rule: str
    parameters: dict[str, Any] = field(hash=False)
    directed: bool
    changing: bool
    repeats: int | None
    declared: tuple[float, ...]
    draw: Callable[[int], Graph] = field(compare=False, repr=False)

    @property
    def doubly_stochastic(self) -> bool:
        """Whether every matrix is doubly stochastic, so that the average over the peers is kept."""
        return self.agreement is None and (self.name not in TOPOLOGIES or TOPOLOGIES[self.name].keeps_mean)

    @cached_property
    def agreement(self) -> NDArray[np.float64] | None:
        """The unit vector sqrt(p) of declared weights, (size,), along which all peers agree; None: constant."""
        return None if len({*self.declared}) <= 1 else np.sqrt(stationary(self.declared))

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
        return self._mixing(number if self.repeats is None else number % self.repeats)

    @cached_property
    def _mixing(self) -> Callable[[int], MixingMatrix]:
        columns = self.name not in TOPOLOGIES or TOPOLOGIES[self.name].keeps_mean
        counts = None if self.agreement is None else self.agreement**2

        def made(number: int) -> MixingMatrix:
            matrix = mixing_matrix(self.draw(number), self.weights_rule, self.declared)
            check_stochastic(matrix.sparse, columns=columns, counts=counts)
            return matrix

        return lru_cache(KEPT_ROUNDS)(made)

    def edges_at(self, number: int) -> list[list[int]]:
        """The edges of round `number`: sorted [i, j] with i < j, or [sender, receiver] when directed."""
        return self.mixing_at(number).edges(directed=self.directed)

    def weights_at(self, number: int) -> NDArray[np.float64]:
        """The mixing matrix of round `number` as a new dense array, (size, size)."""
        return self.mixing_at(number).sparse.toarray()

    def at(self, number: int, rank: int) -> Neighborhood:
        """See `Graphs.at`.

        Raises:
            TopologyError: `rank` is not one of 0..size-1.
        """
        if not 0 <= rank < self.size:
            raise TopologyError(f"rank {rank}: ranks of {self.size} peers run from 0 to {self.size - 1}")
        return self.mixing_at(number).neighborhood(rank)

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """See `Graphs.connections`."""
        if not self.changing:
            return self.at(0, rank).others
        return tuple(np.flatnonzero(_met(self, min(rounds, self.repeats or rounds))[rank]).tolist())


@lru_cache(maxsize=4)
def _met(graph: Topology, rounds: int) -> NDArray[np.bool_]:
    """Whether two ranks meet in the rounds, (size, size)."""
    met = np.eye(graph.size, dtype=bool)
    for number in range(rounds):
        drawn = graph.draw(number)
        met[drawn.sender, drawn.receiver] = met[drawn.receiver, drawn.sender] = True
        if met.all():
            break
    np.fill_diagonal(met, val=False)
    return met


def build(name: str, size: int, *, weights: str = "metropolis", graph_seed: int = 0) -> Topology:
    """Build a topology by name; it is checked to connect everyone.

    Args:
        name: One of `TOPOLOGIES`, perhaps with its parameters (small-world:4,0.1), `file:PATH` (an edge list), or
            `FILE.py:FUNCTION`, which is called with the size and the graph seed.
        size: The number of peers, at least 2.
        weights: One of `WEIGHTS`. A directed graph takes `uniform` whatever the name here: the others are
            not defined on it; a function's graph whose edges have weights keeps those. `declared` has a number above 0
            for each rank behind it: declared:400,20,30.
        graph_seed: The seed of random graphs, at least 0. Public: every peer draws the same graph.

    Raises:
        UnknownName: If `name` or `weights` is not a valid name.
        TopologyError: If no such graph of this size exists, or the weights do not suit it.
    """
    users = name.startswith(PREFIX) or is_function(name)
    if not users and name.partition(":")[0] not in TOPOLOGIES:
        raise UnknownName("topology", name, (*TOPOLOGIES, f"{PREFIX}PATH"))
    if weights not in WEIGHT_RULES and weights.partition(":")[0] != DECLARED:
        raise UnknownName("weights rule", weights, WEIGHTS)
    if size < 2:
        raise TopologyError(f"size {size}: a topology joins at least 2 peers")
    if size > LARGEST_SIZE:
        raise TopologyError(f"size {size}: graphs are built of at most {LARGEST_SIZE:,} peers")
    declared = () if weights in WEIGHT_RULES else parse(weights, size)
    if users:
        label, kind = shown(name), Kind(lambda size: user_graph(name, size, graph_seed), name, name)
        short, given = label, dict[str, Any]()
    else:
        short, given = parsed(name)
        label, kind = name, TOPOLOGIES[short]
    takes = kind.takes
    arguments = {**{one: takes[one] for one in kind.reads}, **given}
    if "graph_seed" in takes:
        if graph_seed < 0:  # Python's generator would take it for its absolute value
            raise TopologyError(f"{name}: graph seed {graph_seed}: choose 0 or more")
        arguments["graph_seed"] = graph_seed
    draw, changing = partial(kind.draw, size, **arguments), short in TIME_VARYING
    first = draw(number=0) if changing else draw()
    if declared:
        check_graph(first)
    if changing and not first.directed and weights in CONNECTED:
        raise TopologyError(
            f"weights {weights}: {short} has another graph every round, and these weights suit one: use metropolis"
        )
    rule = "uniform" if first.directed else DECLARED if declared else weights if first.weights is None else _OWN
    repeats = kind.period(size) if kind.period else None if changing else 1
    parameters = {**arguments, **first.parameters}

    def drawn(number: int) -> Graph:
        return draw(number=number) if changing else first

    made = Topology(short, label, size, rule, parameters, first.directed, changing, repeats, declared, drawn)
    made.period  # noqa: B018 - refuses wrong weights or graphs now
    if not changing and (parts := component_count(made.mixing_at(0).sparse)) > 1:
        raise TopologyError(f"{name}: the graph is not connected: {parts} groups of peers would never agree")
    return made
