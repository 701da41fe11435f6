"""Round clock: lower bounds on every rank's completed rounds, and the quorum's round; no I/O.

Before the first round the same table shows who has been there at all, so that all peers agree on the start.

A round's number is the clock. Each peer has a table of lower bounds: only a rank itself raises its entry, all
others take the maximum of the tables that come. An old entry is merely low, so one-way loss, delays and islands cannot
make it wrong, and no timer enters it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import numpy as np

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.member_list import StampTable

Quorum = Literal["majority", "any"] | int

_ENTRY = np.dtype("<i4")

_ABSENT = -1
"""The entry of a rank that has never been there, as far as is known."""

NO_QUORUM = "no word that a quorum (more than half of all ranks, or as many as --quorum says) has come this far"
"""Why a round may not begin."""


class RoundClock:
    """The table of one peer.

    Args:
        rank: The peer.
        size: How many ranks the federation has: its members, until `use` says which they are.
        rounds: How many rounds the run has.
        quorum: "majority": more than half of the members, or exactly half with the lowest rank that has not completed
            all rounds. "any": every peer by itself is one. A number: so many ranks, which are also enough to start.

    Attributes:
        quorum: The most rounds that a quorum is known to have completed.
        rounds: As given, or as the members' list has them.
    """

    def __init__(self, rank: int, size: int, rounds: int, quorum: Quorum = "majority") -> None:
        self.silent = False
        """Whether its messages carry zeros: peers of one process cannot be cut off, and timing shows in no byte."""
        self.unreachable: Collection[int] = ()
        """The ranks to which no chain of neighbors leads: the start does not wait for them."""
        self.remembered = 0
        """The most rounds that others know of this rank, whatever it knows itself."""
        self._rank = rank
        self.rounds = rounds
        self._size = size
        self._members = np.arange(size)
        self._completed = np.full(max(size, rank + 1), _ABSENT, _ENTRY)
        self.stamps = StampTable(rank)
        """Beside the rounds, which member lists each rank has on disk."""
        self.slack = 0
        """How many rounds more than a quorum a peer may have completed when it begins another one."""
        self._any = quorum == "any"
        self._least = quorum if isinstance(quorum, int) else None
        self.quorum = self.find_quorum()

    @property
    def table(self) -> bytes:
        """All entries by rank, as they travel: signed, four bytes each, the lowest first."""
        return bytes(self._completed.nbytes) if self.silent else self._completed.tobytes()

    def use(self, members: Iterable[int], rounds: int, slack: int) -> None:
        """Count over these ranks from now on, in a run of so many rounds."""
        self._members, self.rounds, self.slack = np.array(sorted(members)), rounds, slack
        self.know(int(self._members[-1]) + 1)
        self.quorum = self.find_quorum()

    def know(self, size: int) -> None:
        """Keep entries of all ranks below this one."""
        if (more := size - len(self._completed)) > 0:
            self._completed = np.append(self._completed, np.full(more, _ABSENT, _ENTRY))

    def __getitem__(self, rank: int) -> int:
        """Rounds that the rank has completed, at least."""
        return max(0, int(self._completed[rank])) if rank < len(self._completed) else 0

    @property
    def members(self) -> list[int]:
        """The ranks that count."""
        return [int(rank) for rank in self._members]

    @property
    def there(self) -> list[int]:
        """The members that have been there, whether they still are or not."""
        return [rank for rank in self.members if self._completed[rank] > _ABSENT]

    @property
    def absent(self) -> list[int]:
        """The members that have never been there, as far as is known."""
        return [rank for rank in self.members if self._completed[rank] == _ABSENT]

    @property
    def needed(self) -> int:
        """How many members must have been there before the first round begins."""
        return len(self) if self._least is None else min(self._least, len(self))

    @property
    def assembled(self) -> bool:
        """Whether enough ranks have been there for the first round. Newcomers need not: they may never come."""
        first = self._members[self._members < self._size]
        unheard = sum(self._completed[rank] == _ABSENT for rank in self.unreachable)
        there = int((self._completed[first] > _ABSENT).sum() + unheard)
        return self.silent or there >= min(self.needed, len(first))

    @property
    def started(self) -> bool:
        """Whether the start is agreed: enough ranks have been there, or a rank has completed a round."""
        return self.assembled or bool((self._completed > 0).any())

    def __len__(self) -> int:
        """How many members the federation has."""
        return len(self._members)

    @property
    def over_for_others(self) -> bool:
        """Whether all other members are known to have completed all rounds, so that none comes any more."""
        others = self._completed[self._members[self._members != self._rank]]
        return bool(len(others)) and bool((others >= self.rounds).all())

    def passed(self, number: int) -> bool:
        """Whether a quorum has completed round `number`."""
        return self.quorum > number

    def reached(self, rank: int, number: int) -> bool:
        """Note that the rank itself reports `number` completed rounds; returns whether that is news."""
        if number <= self._completed[rank]:
            return False
        self._completed[rank] = number
        self.quorum = self.find_quorum()
        return True

    def merge(self, table: bytes) -> bool:
        """Take the maximum of this table and another peer's; returns whether that has brought news.

        Entries of others for this rank are ignored: it knows better.

        Raises:
            ProtocolError: "malformed": it is no table.
        """
        heard = self.parse(table)
        if heard is None:
            return False
        newest = np.maximum(self._completed, heard)
        if newest.tobytes() == self._completed.tobytes():
            return False
        self._completed = newest
        self.quorum = self.find_quorum()
        return True

    def adds_to(self, table: bytes) -> bool:
        """Whether this peer knows something that another peer's (valid) table lacks."""
        heard = self.parse(table)
        return heard is None or bool((self._completed > heard).any())

    def parse(self, table: bytes) -> np.ndarray | None:
        """The entries of known ranks, with this peer's own in its place; None for an empty table.

        Others may know of more ranks or rounds than this peer, where lists add some: these are left out.
        """
        if not table:
            return None
        if len(table) % _ENTRY.itemsize:
            raise ProtocolError("malformed", f"presence of {len(table)} bytes, expected {_ENTRY.itemsize} a rank")
        heard, known = np.full_like(self._completed, _ABSENT), np.frombuffer(table, _ENTRY)[: len(self._completed)]
        np.minimum(known, self.rounds, out=heard[: len(known)])
        # Twice as fast as the method `min`, which each message of every neighbor would call.
        if (wrong := int(np.minimum.reduce(heard))) < _ABSENT:
            raise ProtocolError("malformed", f"presence: {wrong} rounds")
        self.remembered = max(self.remembered, int(heard[self._rank]))
        heard[self._rank] = self._completed[self._rank]
        return heard

    def find_quorum(self) -> int:
        """The rounds that a quorum has completed."""
        return self.rounds if self._any else self._among(self._completed)

    def quorum_with(self, own: int) -> int:
        """The rounds that a quorum would have completed, if this rank had completed so many."""
        completed = self._completed.copy()
        completed[self._rank] = own
        return self.rounds if self._any else self._among(completed)

    def _among(self, entries: np.ndarray) -> int:
        completed: list[int] = np.maximum(entries[self._members], 0).tolist()
        best, half = sorted(completed, reverse=True), len(completed) // 2
        if self._least is not None:
            return best[max(self.needed, half + 1) - 1]
        found = best[half]
        if len(completed) % 2 == 0:
            lowest = next((one for one in completed if one < self.rounds), self.rounds)
            found = max(found, min(best[half - 1], lowest))
        return found
