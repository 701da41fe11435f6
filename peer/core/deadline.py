"""Deadline (`--deadline`): seconds that a round waits for a body, and how long one on its way still takes; no I/O."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Literal

from dpeer.results.units import duration, size

_WINDOW = 64
"""Rounds that count: the last ones."""

_ENOUGH = 3
"""After how many rounds a deadline is found from them."""

_FIRST = 3600.0
"""Seconds of a deadline until then: a first round may take long at a neighbor with a slower device."""

_TIMES = 10
_LEAST = 60.0
"""The deadline found has so many median rounds, and so many seconds, at least: merely slow neighbors are waited for."""

LONGEST = 10
"""A body that comes at a pace at which it takes more deadlines than these is not worth waiting for."""


class RoundDeadline:
    """The deadline of a round.

    Args:
        deadline: Seconds; "auto": found from this peer's last rounds; None: no deadline.

    Attributes:
        seconds: Seconds that a round waits; infinity for as long as it takes. With "auto" the larger of 60 s and ten
            times the median round, which has its wait in it; an hour in the first rounds.
    """

    def __init__(self, deadline: float | Literal["auto"] | None) -> None:
        self._deadline = deadline
        self._rounds: deque[float] = deque(maxlen=_WINDOW)
        self._last: tuple[int, float] | None = None
        self.seconds = self._found()  # here and not where it is asked for: each message of a wait does

    def collected(self, number: int, now: float) -> None:
        """Note that round `number`'s bodies have come."""
        if self._last is not None and self._last[0] == number - 1:  # none was sat out in between
            self._rounds.append(now - self._last[1])
            self.seconds = self._found()
        self._last = number, now

    def paused(self) -> None:
        """Note a pause: the round that follows does not count."""
        self._last = None

    def _found(self) -> float:
        if self._deadline is None:
            return math.inf
        if self._deadline != "auto":
            return self._deadline
        if len(self._rounds) < _ENOUGH:
            return _FIRST
        return max(_LEAST, _TIMES * median(self._rounds))

    def __str__(self) -> str:
        return f"--deadline{' auto' if self._deadline == 'auto' else ''}"


@dataclass(frozen=True)
class Transfer:
    """A body on its way to or from a neighbor.

    Attributes:
        done: Bytes that have come, or gone.
        total: Bytes of the whole body.
        seconds: Since its header.
        incoming: Whether it comes.
    """

    done: int
    total: int
    seconds: float
    incoming: bool

    @property
    def left(self) -> float:
        """Seconds until the rest is there at the pace so far; infinity if nothing is there yet."""
        return (self.total - self.done) * self.seconds / self.done if self.done else math.inf

    def worth_waiting(self, waited: float, deadline: float) -> bool:
        """Whether a round that has waited for so long waits for it although its deadline is over."""
        if not self.done:  # it has just been announced: its pace is not known yet
            return self.seconds < deadline and waited <= LONGEST * deadline
        return waited + self.left <= LONGEST * deadline

    def __str__(self) -> str:
        whose, there = ("its", "have come") if self.incoming else ("this peer's", "are there")
        words = f"{size(self.done)} of {size(self.total)} of {whose} body {there}"
        if not 0 < self.left < math.inf:
            return words
        pace, whole = self.done / self.seconds, self.seconds + self.left
        return f"{words}, {size(round(pace))}/s, about {duration(self.left)} of {duration(whole)} to go"
