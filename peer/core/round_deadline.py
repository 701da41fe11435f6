"""Round deadline (`--deadline`): seconds that a round waits for a body, given or found from the last rounds; no I/O."""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import Literal

_WINDOW = 64
"""Rounds that count: the last ones."""

_ENOUGH = 3
"""After how many rounds a deadline is found from them."""

_FIRST = 3600.0
"""Seconds of a deadline until then: a first round may take long at a neighbor with a slower device."""

_TIMES = 10
_LEAST = 60.0
"""The deadline found has so many median rounds, and so many seconds, at least: merely slow neighbors are waited for."""


class RoundDeadline:
    """The deadline of a round.

    Args:
        deadline: Seconds; "auto": found from this peer's last rounds; None: no deadline.

    Attributes:
        seconds: Seconds that a round waits; infinity for as long as it takes. With "auto" the largest of 60 s, ten
            times the median round, and the median wait and ten times its median absolute deviation; an hour in the
            first rounds.
    """

    def __init__(self, deadline: float | Literal["auto"] | None) -> None:
        self._deadline = deadline
        self._rounds: deque[float] = deque(maxlen=_WINDOW)
        self._waits: deque[float] = deque(maxlen=_WINDOW)
        self._last: tuple[int, float] | None = None
        self.seconds = self._found()  # here and not where it is asked for: each message of a wait does

    def collected(self, number: int, waited: float, now: float) -> None:
        """Note that round `number`'s bodies have come, `waited` seconds after the round began to wait for them."""
        if self._last is not None and self._last[0] == number - 1:  # none was sat out in between
            self._rounds.append(now - self._last[1])
            self._waits.append(waited)
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
        usual = median(self._waits)
        deviation = median(abs(one - usual) for one in self._waits)
        return max(_LEAST, _TIMES * median(self._rounds), usual + _TIMES * deviation)

    def __str__(self) -> str:
        return f"--deadline{' auto' if self._deadline == 'auto' else ''}"
