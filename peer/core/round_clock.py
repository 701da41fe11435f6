"""Round clock: the presence table of rounds that each rank has completed, and the quorum; no wall time, no I/O.

Before the first round the same table shows who has been there at all, so that all peers agree on the start.

A round's number is the clock. Each peer has a table of lower bounds: only a rank itself raises its entry, all
others take the maximum of the tables that come. An old entry is merely low, so one-way loss, delays and islands cannot
make it wrong, and no timer enters it.

Where membership changes, an entry has a second part, the epoch that the rank has accepted. The two parts ride together:
of two entries of a rank the one with more rounds counts, and of as many rounds the one with the higher revision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.limits import DIGEST_BYTES

Quorum = Literal["majority", "any"] | int

_ENTRY = np.dtype("<i4")

_ABSENT = -1
"""The entry of a rank that has never been there, as far as is known."""

_MOST = 2**31 - 1

NO_QUORUM = "no word that a quorum (more than half of all ranks, or as many as --quorum says) has come this far"
"""Why a round may not begin."""

_ACCEPTED = np.dtype([("revision", "<u4"), ("epoch", f"V{DIGEST_BYTES}")])


class Accepted(NamedTuple):
    """The second part of an entry: the epoch that a rank has accepted last.

    Attributes:
        revision: How often the rank has changed its mind so far; 0: it has accepted no epoch beyond the first.
        epoch: The first bytes of the epoch's hash; zeros for the first one.
    """

    revision: int
    epoch: bytes


class RoundClock:
    """The table of one peer.

    Args:
        rank: The peer.
        size: How many first members the federation has; the start waits for these, and for none that joins later.
        rounds: How many rounds the run has.
        quorum: "majority": more than half of all ranks, or exactly half with the lowest rank that has not completed all
            rounds. "any": every peer by itself is one. A number: so many ranks, which are also enough to start.

    Attributes:
        size: The number of first members.
        quorum: The most rounds that a quorum is known to have completed.
    """

    def __init__(self, rank: int, size: int, rounds: int, quorum: Quorum = "majority") -> None:
        self.silent = False
        """Whether its messages carry zeros: peers of one process cannot be cut off, and timing shows in no byte."""
        self.counted: Callable[[], Sequence[int]] | None = None
        """The completed rounds of each rank that counts; None: those of all ranks."""
        self.lenient = False
        """Whether tables of other lengths fit: ranks come and go, and not all peers know of it yet."""
        self.unreachable: Collection[int] = ()
        """The ranks to which no chain of neighbors leads: the start does not wait for them."""
        self.remembered = 0
        """The most rounds that others know of this rank, whatever it knows itself."""
        self.ahead = 0
        """The most rounds that others have known of this rank when it knew of fewer itself: another process of it, on
        a disk that is lost, has completed them."""
        self.recalled: Mapping[int, int] = {}
        """By rank, the completed rounds that an earlier process of this peer has heard of: they count in no quorum."""
        self._rank = rank
        self.rounds = rounds
        self.size = size
        self._completed = np.full(size, _ABSENT, _ENTRY)
        self._accepted = np.zeros(size, _ACCEPTED)
        self._revised = False  # whether any rank has accepted an epoch
        self._any = quorum == "any"
        self._least = quorum if isinstance(quorum, int) else None
        self.quorum = rounds if self._any else self.find_quorum()

    @property
    def anyone(self) -> bool:
        """Whether every peer by itself is a quorum."""
        return self._any

    @property
    def bound(self) -> int:
        """The most rounds that another rank may have completed: all, or, where epochs add some, any number."""
        return _MOST if self.lenient else self.rounds

    @property
    def table(self) -> bytes:
        """All entries by rank, as they travel: signed, four bytes each, the lowest first."""
        return bytes(self._completed.nbytes) if self.silent else self._completed.tobytes()

    @property
    def epochs(self) -> bytes:
        """The second parts by rank, as they travel: twenty bytes each; empty while no rank has accepted an epoch."""
        return self._accepted.tobytes() if self._revised and not self.silent else b""

    def __getitem__(self, rank: int) -> int:
        """Rounds that the rank has completed, at least."""
        return max(0, int(self._completed[rank]))

    @property
    def there(self) -> list[int]:
        """The ranks that have been there, whether they still are or not."""
        return [int(rank) for rank in np.flatnonzero(self._completed > _ABSENT)]

    @property
    def absent(self) -> list[int]:
        """The first members that have never been there, as far as is known."""
        return [int(rank) for rank in np.flatnonzero(self._completed[: self.size] == _ABSENT)]

    @property
    def needed(self) -> int:
        """How many first members must have been there before the first round begins."""
        return self.size if self._least is None else self._least

    @property
    def assembled(self) -> bool:
        """Whether enough ranks have been there for the first round."""
        unheard = sum(self._completed[rank] == _ABSENT for rank in self.unreachable)
        return self.silent or int((self._completed[: self.size] > _ABSENT).sum() + unheard) >= self.needed

    @property
    def started(self) -> bool:
        """Whether the start is agreed: enough ranks have been there, or a rank has completed a round."""
        return self.assembled or bool((self._completed > 0).any())

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._completed)

    def accepted(self, rank: int) -> Accepted:
        """The epoch that the rank has accepted last, as far as is known."""
        found = self._accepted[rank]
        return Accepted(int(found["revision"]), bytes(found["epoch"]))

    def recall(self, rank: int) -> int:
        """Rounds that the rank has completed, at least, as far as this process or an earlier one has heard."""
        if self.silent:
            return 0
        return max(self[rank] if rank < len(self) else 0, self.recalled.get(rank, 0))

    @property
    def to_recall(self) -> dict[int, int]:
        """By rank, what a later process of this peer is to recall."""
        found = {rank: self.recall(rank) for rank in {*range(len(self)), *self.recalled} - {self._rank}}
        return {rank: rounds for rank, rounds in sorted(found.items()) if rounds}

    def remind(self, rounds: int) -> None:
        """Note that another peer recalls so many rounds of this rank."""
        self.remembered = max(self.remembered, rounds)
        if rounds > self[self._rank]:
            self.ahead = max(self.ahead, rounds)

    def grow(self, size: int) -> None:
        """Make room for ranks below `size`."""
        more = size - len(self._completed)
        if more > 0:
            self._completed = np.concatenate([self._completed, np.full(more, _ABSENT, _ENTRY)])
            self._accepted = np.concatenate([self._accepted, np.zeros(more, _ACCEPTED)])

    @property
    def over_for_others(self) -> bool:
        """Whether all other ranks are known to have completed all rounds, so that none comes any more."""
        others = np.delete(self._completed, self._rank)
        return bool(len(others)) and bool((others >= self.rounds).all())

    def passed(self, number: int) -> bool:
        """Whether a quorum has completed round `number`."""
        return self.quorum > number

    def reached(self, rank: int, number: int) -> bool:
        """Note that the rank itself reports `number` completed rounds; returns whether that is news."""
        if self.lenient:
            self.grow(rank + 1)
        if number <= self._completed[rank]:
            return False
        self._completed[rank] = number
        self.update()
        return True

    def accept(self, accepted: Accepted) -> None:
        """Note that this peer has accepted an epoch, or changed its mind; that is on disk."""
        self._accepted[self._rank] = accepted
        self._note_revisions()
        self.update()

    def _note_revisions(self) -> None:
        self._revised = bool(self._accepted["revision"].any())

    def merge(self, table: bytes, epochs: bytes = b"") -> bool:
        """Take the maximum of this table and another peer's; returns whether that has brought news.

        Entries of others for this rank are ignored: it knows better.

        Args:
            table: As `table`.
            epochs: As `epochs`.

        Raises:
            ProtocolError: "malformed": it is not of this federation's size, or an entry has more rounds than the run.
        """
        heard = self.parse(table)
        if heard is None:
            return False
        if not epochs and not self._revised:
            newest = np.maximum(self._completed, heard)
            if newest.tobytes() == self._completed.tobytes():
                return False
            self._completed = newest
            self.update()
            return True
        accepted = self._parse_epochs(epochs)
        newer = _newer(heard, accepted["revision"], self._completed, self._accepted["revision"])
        newer[self._rank] = False
        if not newer.any():
            return False
        self._completed[newer] = heard[newer]
        self._accepted[newer] = accepted[newer]
        self._note_revisions()
        self.update()
        return True

    def adds_to(self, table: bytes, epochs: bytes = b"") -> bool:
        """Whether this peer knows something that another peer's (valid) table lacks."""
        heard = self.parse(table)
        if heard is None:
            return True
        revisions = self._parse_epochs(epochs)["revision"]
        return bool(_newer(self._completed, self._accepted["revision"], heard, revisions).any())

    def parse(self, table: bytes) -> np.ndarray | None:
        """The entries with this peer's own in its place; None for an empty table."""
        if not table:
            return None
        if self.lenient and len(table) % _ENTRY.itemsize == 0:
            table = _fitted(table, self._completed.nbytes, _ABSENT.to_bytes(1, signed=True))
        elif len(table) != self._completed.nbytes:
            raise ProtocolError("malformed", f"presence of {len(table)} bytes, expected {self._completed.nbytes}")
        heard = np.frombuffer(table, _ENTRY).copy()
        # Twice as fast as the methods `max` and `min`, which each message of every neighbor would call.
        for wrong in (int(np.maximum.reduce(heard)), int(np.minimum.reduce(heard))):
            if not _ABSENT <= wrong <= self.bound:
                raise ProtocolError("malformed", f"presence: {wrong} rounds of {self.rounds}")
        self.remind(int(heard[self._rank]))
        heard[self._rank] = self._completed[self._rank]
        return heard

    def _parse_epochs(self, epochs: bytes) -> np.ndarray:
        """The second parts, as many as this peer has entries."""
        if epochs and (not self.lenient or len(epochs) % _ACCEPTED.itemsize):
            raise ProtocolError("malformed", f"presence: {len(epochs)} bytes of epochs")
        return np.frombuffer(_fitted(epochs, self._accepted.nbytes), _ACCEPTED)

    def update(self) -> None:
        """Find the quorum again, because an entry or the members have changed."""
        self.quorum = self.rounds if self._any else self.find_quorum()

    def find_quorum(self) -> int:
        """The rounds that a quorum has completed."""
        return self.among(np.maximum(self._completed, 0).tolist() if self.counted is None else self.counted())

    def among(self, completed: Sequence[int]) -> int:
        """The rounds that a quorum of ranks has completed that have each completed so many, by rank."""
        best, half = sorted(completed, reverse=True), len(completed) // 2
        if self._least is not None:
            return int(best[self._enough(len(completed)) - 1])
        found = best[half]
        if len(completed) % 2 == 0:
            lowest = next((one for one in completed if one < self.rounds), self.rounds)
            found = max(found, min(best[half - 1], lowest))
        return int(found)

    def _enough(self, members: int) -> int:
        """How many of so many members are a quorum, where that is a number: always more than half, at most all."""
        assert self._least is not None
        return min(max(self._least, members // 2 + 1), members)

    def is_quorum(self, members: Sequence[int], ranks: Collection[int]) -> bool:
        """Whether these ranks are a quorum of the members: more than half, or half with the lowest."""
        if self._any:
            return True
        found = sum(rank in ranks for rank in members)
        if self._least is not None:
            return found >= self._enough(len(members))
        return 2 * found > len(members) or (2 * found == len(members) and min(members) in ranks)


def _newer(rounds: np.ndarray, revisions: np.ndarray, before: np.ndarray, revisions_before: np.ndarray) -> np.ndarray:
    """Where an entry is newer than the one before."""
    found: np.ndarray = (rounds > before) | ((rounds == before) & (revisions > revisions_before))
    return found


def _fitted(table: bytes, length: int, fill: bytes = b"\0") -> bytes:
    """A table of this length: cut, or with these bytes at its end."""
    return table[:length].ljust(length, fill)
