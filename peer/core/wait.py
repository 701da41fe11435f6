"""Wait: the present wait's kind and times, its view for status, and totals of pauses; data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["meet", "pause", "collect", "adopt", "settle", "linger", "part"]
"""The aim of a wait: the neighbors, the begin of a round, its bodies, those that a returner adopts, the round's end, or
neighbors that need this peer after it: after the last round ("linger"), or the one after which it leaves ("part")."""

LONG_WAIT = 3600.0
"""Seconds between two lines of the log about a long wait, at most."""


@dataclass
class Wait:
    """The present wait.

    Attributes:
        kind: Its aim.
        number: The round.
        since: Clock time at which it began.
        log_at: Clock time of the next line of the log about it.
        log_every: Seconds from then until the line after that.
        logged: Whether a line has been written.
    """

    kind: Kind
    number: int
    since: float
    log_at: float
    log_every: float
    logged: bool = False

    def said(self, now: float) -> None:
        """Note that a line was written: the next ones get rarer."""
        self.logged, self.log_at = True, now + self.log_every
        self.log_every = min(2 * self.log_every, LONG_WAIT)


@dataclass(frozen=True)
class WaitingNow:
    """The present wait, for people.

    Attributes:
        kind: Its aim.
        seconds: For how long it lasts.
        ranks: The ranks that it is for, and why each is not there yet.
        why: Why the next round may not begin, in a pause.
    """

    kind: Kind
    seconds: float
    ranks: Mapping[int, str]
    why: str = ""


@dataclass
class Pauses:
    """The pauses of a peer.

    Attributes:
        count: How many.
        seconds: How long all of them took.
    """

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """Note a pause."""
        self.count += 1
        self.seconds += seconds
