"""How long the parts of a round take."""

from __future__ import annotations

import time


class Stopwatch:
    """Seconds since the last look."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        return seconds
