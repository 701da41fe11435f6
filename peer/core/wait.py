"""Wait: what a peer's round loop waits for at present, and since when; the pauses that are over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["meet", "pause", "collect", "settle", "linger", "part"]
"""For the neighbors, the begin of a round, its bodies, its end, or neighbors that need this peer after it: after the
last one ("linger"), or the one after which it leaves ("part")."""

_MOST_PAUSES = 100


@dataclass
class Wait:
    """The present wait.

    Attributes:
        kind: For the neighbors, the begin of a round, its bodies, its end, or neighbors that need this peer after it:
            after the last one ("linger"), or the one after which it leaves ("part").
        number: The round.
        since: Clock time at which it began.
        log_at: Clock time of the next line of the log about it.
        pause: Seconds from then until the line after that.
        logged: Whether a line has been written.
        early: Whether a joiner waits for the others to come to the round in which it begins: that is no cut line.
    """

    kind: Kind
    number: int
    since: float
    log_at: float
    pause: float
    logged: bool = False
    early: bool = False


@dataclass(frozen=True)
class WaitingNow:
    """The present wait, for people.

    Attributes:
        kind: As that of `Wait`.
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
        rounds: Before which rounds; at most the first `_MOST_PAUSES`.
    """

    count: int = 0
    seconds: float = 0.0
    rounds: list[int] = field(default_factory=list)

    def add(self, number: int, seconds: float) -> None:
        """Note a pause before round `number`."""
        self.count += 1
        self.seconds += seconds
        if len(self.rounds) < _MOST_PAUSES:
            self.rounds.append(number)
