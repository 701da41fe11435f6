"""A topology that changes with the round."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array

from dpeer.exceptions import TopologyError
from dpeer.topology.checks import Matrix, check_averages, parts_of
from dpeer.topology.circulant import Circulant
from dpeer.topology.edges import Steps
from dpeer.topology.exchange import Exchange, messages
from dpeer.topology.neighborhood import Neighborhood, check_rank
from dpeer.topology.schedules import Plan
from dpeer.topology.weights import matrix_of, mix

_KEPT = 64
"""Rounds kept in memory: peers of one process are a few rounds apart."""

_PATIENCE = 1000
_AT_ONCE = 32


@dataclass(frozen=True)
class ChangingTopology:
    """A graph and a mixing matrix for every round; make one with `build`. Equal when defined alike.

    Attributes:
        name: The graph's name, one of `TOPOLOGIES`.
        size: The number of peers.
        weights_rule: How each round's matrix is made.
        parameters: What else defines the graphs, JSON-able and canonical.
        plan: How a round's graph is drawn.
    """

    name: str
    size: int
    weights_rule: str
    parameters: dict[str, Any] = field(hash=False)
    plan: Plan = field(compare=False, repr=False)
    _mixings: dict[int, Circulant | Matrix] = field(default_factory=dict, compare=False, repr=False)
    _exchanges: dict[int, Exchange] = field(default_factory=dict, compare=False, repr=False)
    _union: dict[int, Exchange] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.period  # noqa: B018 - what is wrong with weights or graphs is said now

    @cached_property
    def period(self) -> int:
        """After how many rounds the graphs repeat; where they never do, how many of the first are looked at together.

        Those are as many as connect everyone, and as it takes a peer to send log2(size) messages: the fewest after
        which anybody can hold the exact average.

        Raises:
            TopologyError: If a thousand rounds do not connect everyone.
        """
        if self.plan.period is not None:
            return self.plan.period
        together = csr_array((self.size, self.size), dtype=np.float64)
        sent = 0.0
        for number in range(_PATIENCE):
            mixing = self.during(number)
            together = together + matrix_of(mixing)
            sent += float(messages(mixing).mean())
            if sent >= math.log2(self.size) and parts_of(together) == 1:
                return number + 1
        raise TopologyError(f"{self.name}: {self.size} peers are not connected by {_PATIENCE} rounds together")

    @property
    def averages(self) -> bool:
        """Whether every matrix is doubly stochastic, so that the average over the peers is kept."""
        return self.plan.averages

    @cached_property
    def directed(self) -> bool:
        """Whether peers may send to peers they do not receive from."""
        return self.plan.draw(0).directed

    @cached_property
    def digest(self) -> str:
        """A short hash of the edges of a period, which all peers must have drawn alike."""
        edges = [self.edges_at(number) for number in range(self.period)]
        return hashlib.sha256(json.dumps(edges).encode()).hexdigest()[:16]

    def during(self, number: int) -> Circulant | Matrix:
        """The mixing matrix of round `number`."""
        if self.plan.period is not None:
            number %= self.plan.period
        if number not in self._mixings:
            mixing = mix(self.plan.draw(number), self.weights_rule, self.name)
            if not isinstance(mixing, Circulant):
                check_averages(mixing, columns=self.averages)
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
        return self._exchange(number).around(rank)

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """Every rank that `rank` sends to or receives from in rounds 0 to `rounds` - 1, sorted.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        check_rank(rank, self.size)
        if rounds not in self._union:
            self._union[rounds] = Exchange(self._together(rounds))
        around = self._union[rounds].around(rank)
        return tuple(sorted({*around.in_neighbors, *around.out_neighbors}))

    def _together(self, rounds: int) -> Matrix:
        """A matrix with an entry for each edge of the rounds."""
        distinct = rounds if self.plan.period is None else min(rounds, self.plan.period)
        together = csr_array((self.size, self.size), dtype=np.float64)
        for first in range(0, distinct, _AT_ONCE):
            graphs = [self.plan.draw(number) for number in range(first, min(first + _AT_ONCE, distinct))]
            links = [graph.links() if isinstance(graph, Steps) else graph for graph in graphs]
            senders, receivers = zip(*(graph.messages() for graph in links), strict=True)
            ends = np.concatenate(receivers), np.concatenate(senders)
            more = coo_array((np.ones(len(ends[0])), ends), shape=(self.size, self.size))
            together = csr_array(together + more.tocsr())
            if together.nnz == self.size * (self.size - 1):
                break  # everyone has met everyone
        return together

    def _exchange(self, number: int) -> Exchange:
        if self.plan.period is not None:
            number %= self.plan.period
        if number not in self._exchanges:
            _keep(self._exchanges, number, Exchange(matrix_of(self.during(number))))
        return self._exchanges[number]


def _keep(kept: dict[int, Any], number: int, value: Any) -> None:
    kept[number] = value
    if len(kept) > _KEPT:
        del kept[next(iter(kept))]  # the one kept longest
