"""One peer's part of the graph: its neighbors, and its row of the mixing matrix.

These are the only types that the round loop sees. A graph that is the same in every round, one that changes
with the round, and no graph at all (`Isolated`) have the same two methods, `Graphs.at` and `Graphs.connections`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol


class Row(Mapping[int, float]):
    """One receiver's row of the mixing matrix: the weight of each rank it hears, its own included (0 if not given).

    Immutable, and iterated in rank order: mixing in one order makes runs reproducible to the bit.
    """

    __slots__ = ("_rank", "_weights")

    def __init__(self, rank: int, weights: Mapping[int, float]) -> None:
        self._rank = rank
        self._weights = dict(sorted({rank: 0.0, **weights}.items()))

    @property
    def rank(self) -> int:
        """The receiver."""
        return self._rank

    def __getitem__(self, rank: int) -> float:
        return self._weights[rank]

    def __iter__(self) -> Iterator[int]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __hash__(self) -> int:  # Mapping's equality looks at the items only, so the hash does too
        return hash(frozenset(self._weights.items()))

    def __repr__(self) -> str:
        return f"Row({self._rank}, {self._weights})"

    def restricted_to(self, received: Collection[int]) -> Row:
        """The row to mix with when only some ranks were heard; the receiver counts as heard, listed or not.

        The weight of a neighbor whose body did not come goes to the receiver itself, so that the row still sums to one.
        If none is missing this very row is returned, so that a full round is bit-identical to an unrestricted one.
        """
        missing = {rank for rank in self if rank != self._rank and rank not in received}
        if not missing:
            return self
        kept = {rank: weight for rank, weight in self.items() if rank not in missing}
        # fsum is exact before its one rounding, so the result does not depend on the order.
        kept[self._rank] = math.fsum([self[self._rank], *(self[rank] for rank in missing)])
        return Row(self._rank, kept)

    def without_own(self, received: Collection[int]) -> Mapping[int, float]:
        """The weights of the ranks heard alone (at least one), scaled to sum to one; equal where all are zero."""
        kept = {rank: weight for rank, weight in self.items() if rank != self._rank and rank in received}
        total = math.fsum(kept.values())
        return {rank: weight / total if total else 1 / len(kept) for rank, weight in kept.items()}


@dataclass(frozen=True)
class Neighborhood:
    """The graph of one round as one peer sees it.

    Attributes:
        row: The peer's row of the mixing matrix, for a round in which all in-neighbors' bodies come.
        in_neighbors: The ranks it receives from in this round, sorted.
        out_neighbors: The ranks it sends to in this round, sorted.
        active: Whether the peer trains and sends in the round. A peer that does not also has no in-neighbors, but
            where a sample sends to all (`ServerSampling`).
    """

    rank: int
    row: Row
    in_neighbors: tuple[int, ...]
    out_neighbors: tuple[int, ...]
    active: bool = True

    @property
    def others(self) -> tuple[int, ...]:
        """The ranks it sends to or receives from, sorted."""
        return tuple(sorted({*self.in_neighbors, *self.out_neighbors}))


class Graphs(Protocol):
    """A graph for every round of a run."""

    @property
    def size(self) -> int:
        """The number of peers."""

    def at(self, number: int, rank: int) -> Neighborhood:
        """The graph of round `number` (from 0) as `rank` sees it."""

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """Every rank that `rank` sends to or receives from in rounds 0 to `rounds` - 1, sorted."""


@dataclass(frozen=True)
class Isolated:
    """No exchange at all: every peer keeps what it has (the identity as mixing matrix)."""

    size: int

    def at(self, number: int, rank: int) -> Neighborhood:
        """See `Graphs.at`; the same in every round."""
        return Neighborhood(rank, Row(rank, {rank: 1.0}), (), ())

    def connections(self, rank: int, rounds: int) -> tuple[int, ...]:
        """See `Graphs.connections`; none here."""
        return ()
