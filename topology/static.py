"""A topology that is the same in every round."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpeer.topology.checks import Matrix
from dpeer.topology.circulant import Circulant
from dpeer.topology.exchange import Exchange
from dpeer.topology.neighborhood import Neighborhood, check_rank
from dpeer.topology.weights import matrix_of


@dataclass(frozen=True)
class Topology:
    """A graph with its mixing matrix; make one with `build`. Equal when defined alike.

    Attributes:
        name: The graph's name, one of `TOPOLOGIES`, or `file:NAME`.
        size: The number of peers.
        weights_rule: How the matrix was made, one of `WEIGHTS`.
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
    mixing: Circulant | Matrix = field(compare=False, repr=False)

    period = 1
    """After how many rounds the graph repeats."""

    averages = True
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
        """A short hash of the edges, and of weights that a solver found; it must be equal on all peers."""
        solved = self.matrix.data.tobytes() if self.weights_rule == "fastest" else b""
        return hashlib.sha256(json.dumps(self.edges).encode() + solved).hexdigest()[:16]

    def during(self, number: int) -> Circulant | Matrix:
        """The mixing matrix of round `number`."""
        return self.mixing

    def at(self, number: int, rank: int) -> Neighborhood:
        """The graph of round `number` (from 0) as `rank` sees it; here the same in every round.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        check_rank(rank, self.size)
        return self._exchange.around(rank)

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """Every rank that `rank` sends to or receives from, sorted; the same however many the rounds.

        Raises:
            TopologyError: If `rank` is not one of 0..size-1.
        """
        around = self.at(0, rank)
        return tuple(sorted({*around.in_neighbors, *around.out_neighbors}))

    @cached_property
    def _exchange(self) -> Exchange:
        return Exchange(matrix_of(self.mixing))
