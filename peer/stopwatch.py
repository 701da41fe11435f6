"""How long the parts of a round take."""

from __future__ import annotations

import time


class Stopwatch:
    """Measures one part of a round after the other."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def lap(self) -> float:
        """The seconds since the last call, or since the start."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        return seconds
