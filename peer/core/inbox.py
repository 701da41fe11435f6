"""Received bodies, of the current round and of the next; of some earlier ones an imprint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dpeer.peer.core.limits import IMPRINTS
from dpeer.peer.core.payload_fingerprint import imprint
from dpeer.peer.learner import Payload


@dataclass(frozen=True)
class Received:
    """A neighbor's body of one round."""

    payload: Payload
    wire_bytes: int


@dataclass
class _First:
    """What is remembered of the first body that came of a rank for a round."""

    imprint: bytes
    contradicted: bool = False
    """Whether a second body came with other bytes."""


class Inbox:
    """Holds the neighbors' bodies until the round loop asks for them.

    A neighbor sends a round's body only once it knows that this peer has reached the round before. So memory is bounded
    by two bodies per neighbor, and the imprints of a few more: a second body for a round is never used, but one with
    other bytes shows that the neighbor has released that round twice.

    Args:
        different: Called with rank and round when a second body differs from the first; once for that rank and round.

    Attributes:
        earliest: The earliest round whose bodies are still of use.
        dropped: Bodies that came too late, too early, twice, or ("different") a second time and not with the same
            bytes, counted by these words.
    """

    def __init__(self, different: Callable[[int, int], None] = lambda rank, number: None) -> None:
        self.earliest = 0
        self.dropped: Counter[str] = Counter()
        self._different = different
        self._rounds: dict[int, dict[int, Received]] = {}
        self._firsts: dict[int, dict[int, _First]] = {}

    def wants(self, rank: int, number: int) -> bool:
        """Whether round `number`'s body of this rank is of use.

        A body that is of no use is counted: here, or if it is a second one by `compare`, once its bytes have come.
        """
        if self._first(rank, number):
            return False
        if self.earliest <= number <= self.earliest + 1:
            return True
        self.dropped["late" if number < self.earliest else "early"] += 1
        return False

    def put(self, rank: int, number: int, received: Received) -> bool:
        """Keep a body, or drop and count it when it is of no use; return whether it is kept."""
        if self._first(rank, number):
            self.compare(rank, number, imprint(received.payload))
        elif self.wants(rank, number):
            self._rounds.setdefault(number, {})[rank] = received
            self._firsts.setdefault(rank, {})[number] = _First(imprint(received.payload))
            return True
        return False

    def compare(self, rank: int, number: int, found: bytes) -> None:
        """Count a body that `wants` had no use for, if it is a second one; `found` is its imprint."""
        first = self._first(rank, number)
        if first is None:
            return
        if found == first.imprint:
            self.dropped["duplicate"] += 1
            return
        self.dropped["different"] += 1
        if not first.contradicted:
            first.contradicted = True
            self._different(rank, number)

    def open(self, number: int) -> None:
        """Begin a round: bodies of earlier rounds are late from now on."""
        self.earliest = number
        for old in [kept for kept in self._rounds if kept < number]:
            self.dropped["late"] += len(self._rounds.pop(old))
        for firsts in self._firsts.values():
            for old in sorted(firsts)[:-IMPRINTS]:
                del firsts[old]

    def has(self, rank: int, number: int) -> bool:
        """Whether round `number`'s body of this rank is here."""
        return rank in self._rounds.get(number, {})

    def take(self, number: int, ranks: Iterable[int]) -> dict[int, Received]:
        """Round `number`'s bodies of the ranks, as far as they are here, in rank order; from then on others are late.

        Bodies of the next round stay.
        """
        here = self._rounds.pop(number, {})
        self.earliest = number + 1
        return {rank: here[rank] for rank in sorted(ranks) if rank in here}

    def __len__(self) -> int:
        """How many bodies are here."""
        return sum(len(bodies) for bodies in self._rounds.values())

    def _first(self, rank: int, number: int) -> _First | None:
        return self._firsts.get(rank, {}).get(number)
