"""Round clock: the presence table of rounds that each rank has completed, and the quorum; no wall time, no I/O.

A round's number is the clock. Each peer has a table of lower bounds: only a rank itself raises its entry, all
others take the maximum of the tables that come. An old entry is merely low, so one-way loss, delays and islands cannot
make it wrong, and no timer enters it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from dpeer.exceptions import ProtocolError

Quorum = Literal["majority", "any"]

_ENTRY = np.dtype("<u4")


class RoundClock:
    """The table of one peer.

    Args:
        rank: The peer.
        size: How many ranks the federation has; all of them are members.
        rounds: How many rounds the run has.
        quorum: "majority": more than half of all ranks, or exactly half with the lowest rank that has not completed all
            rounds. "any": every peer by itself is one.

    Attributes:
        quorum: The most rounds that a quorum is known to have completed.
    """

    def __init__(self, rank: int, size: int, rounds: int, quorum: Quorum = "majority") -> None:
        self.silent = False
        """Whether its messages carry zeros: peers of one process cannot be cut off, and timing shows in no byte."""
        self._rank = rank
        self.rounds = rounds
        self._completed = np.zeros(size, _ENTRY)
        self._any = quorum == "any"
        self.quorum = rounds if self._any else self.find_quorum()

    @property
    def table(self) -> bytes:
        """All entries by rank, as they travel: four bytes each, the lowest first."""
        return bytes(self._completed.nbytes) if self.silent else self._completed.tobytes()

    def __getitem__(self, rank: int) -> int:
        """Rounds that the rank has completed, at least."""
        return int(self._completed[rank])

    def passed(self, number: int) -> bool:
        """Whether a quorum has completed round `number`."""
        return self.quorum > number

    def reached(self, rank: int, number: int) -> bool:
        """Note that the rank itself reports `number` completed rounds; returns whether that is news."""
        if number <= self._completed[rank]:
            return False
        self._completed[rank] = number
        self._update()
        return True

    def merge(self, table: bytes) -> bool:
        """Take the maximum of this table and another peer's; returns whether that has brought news.

        Entries of others for this rank are ignored: it knows better.

        Raises:
            ProtocolError: "malformed": it is not of this federation's size, or an entry has more rounds than the run.
        """
        heard = self.parse(table)
        if heard is None or not (heard > self._completed).any():
            return False
        np.maximum(self._completed, heard, out=self._completed)
        self._update()
        return True

    def adds_to(self, table: bytes) -> bool:
        """Whether this peer knows something that another peer's (valid) table lacks."""
        heard = self.parse(table)
        return heard is None or bool((self._completed > heard).any())

    def parse(self, table: bytes) -> np.ndarray | None:
        """The entries with this peer's own in its place; None for an empty table."""
        if not table:
            return None
        if len(table) != self._completed.nbytes:
            raise ProtocolError("malformed", f"presence of {len(table)} bytes, expected {self._completed.nbytes}")
        heard = np.frombuffer(table, _ENTRY).copy()
        if int(heard.max()) > self.rounds:
            raise ProtocolError("malformed", f"presence: {heard.max()} rounds of {self.rounds}")
        heard[self._rank] = self._completed[self._rank]
        return heard

    def _update(self) -> None:
        if not self._any:
            self.quorum = self.find_quorum()

    def find_quorum(self) -> int:
        """The rounds that a quorum has completed."""
        completed = self._completed.tolist()
        best, half = sorted(completed, reverse=True), len(completed) // 2
        found = best[half]
        if len(completed) % 2 == 0:
            lowest = next((one for one in completed if one < self.rounds), self.rounds)
            found = max(found, min(best[half - 1], lowest))
        return int(found)
