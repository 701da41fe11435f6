"""Limits of a relay: every bound on what a stranger or a listed key may cost it, and the pace of a key's bytes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

MOST_UNPROVED = 128
"""Connections that have not proved a key, at most. Of more, the oldest of the host with the most is ended."""

PROVE_WITHIN = 10.0
"""Seconds in which a connection has to prove a key."""

QUIET = 120.0
"""Seconds without a byte, or in which one end takes no byte, after which a joint is ended: peers send a heartbeat each
second."""

LOOK = 5.0
"""Seconds between two looks for joints that are quiet, and at the files of keys."""

REPORT = 30.0
"""Seconds for which refused connections are counted before a line of the log tells them."""

CALLS_A_SECOND = 4.0
CALLS_AT_ONCE = 32.0
"""Claims of one key that make another peer dial or lines of the log: in the long run, with half as many for each listed
key, and at once."""

LINES_A_SECOND = 0.1
LINES_AT_ONCE = 300.0
"""Lines of the log that one key may cause, in the long run and at once; further ones are counted."""

RATE = 125_000_000
"""Bytes a second that one key may send, by default: a line of 1 Gbit/s."""

CONNECTIONS = 256
"""Connections of one key, by default: one to be called, and one for each peer that it is joined to."""


@dataclass(frozen=True)
class RelayLimits:
    """What one listed key may use.

    Attributes:
        rate: Bytes a second that it sends; as many may come at once after a second of silence.
        connections: Its connections.
    """

    rate: float = RATE
    connections: int = CONNECTIONS


class Bucket:
    """A token bucket, of the claims or the lines of one key.

    Args:
        rate: Tokens a second.
        most: Tokens at the start, and the most.
        now: The time of its start, in seconds.
    """

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate, self._most, self._left, self._since = rate, most, most, now

    def fill(self, now: float) -> float:
        """The tokens in it."""
        self._left = min(self._most, self._left + (now - self._since) * self._rate)
        self._since = now
        return self._left

    def take(self, now: float) -> bool:
        """Take a token; returns whether it had one."""
        if self.fill(now) < 1:
            return False
        self._left -= 1
        return True


class Pace(Bucket):
    """A token bucket of the bytes of one key, which makes their sender wait; it holds those of one second.

    Args:
        rate: Bytes a second.
        now: The time of its start, in seconds.
    """

    def __init__(self, rate: float, now: float) -> None:
        super().__init__(rate, rate, now)

    def spend(self, nbytes: int, now: float) -> float:
        """Take these bytes; returns the seconds that their sender has to wait."""
        self._left = self.fill(now) - nbytes
        return max(0.0, -self._left / self._rate)

    async def __call__(self, nbytes: int) -> None:
        """Take these bytes, and wait as long."""
        if delay := self.spend(nbytes, asyncio.get_running_loop().time()):
            await asyncio.sleep(delay)
