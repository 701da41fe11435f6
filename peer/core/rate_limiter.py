"""Rate limiter: a token bucket for each sender, in messages a second. No I/O.

An honest neighbor's messages are few, or bodies that are used. Endless messages of no use would keep the event loop
busy for ever.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass
class _Bucket:
    left: float
    since: float


class RateLimiter:
    """The tokens that each sender has left. They grow with time, up to a bound.

    Args:
        a_second: What everybody gets a second.
        at_most: What everybody begins with, and has at most.
        senders: How many are remembered; those who have not sent anything for longest are forgotten.
    """

    def __init__(self, a_second: float, at_most: float, senders: int) -> None:
        self._a_second, self._at_most, self._senders = a_second, at_most, senders
        self._buckets: dict[Hashable, _Bucket] = {}

    def spend(self, who: Hashable, cost: float, now: float) -> bool:
        """Take this from what a sender has left, if there is as much; return whether there was."""
        bucket = self._buckets.pop(who, None) or _Bucket(self._at_most, now)
        self._buckets[who] = bucket  # the last one of all
        if len(self._buckets) > self._senders:
            del self._buckets[next(iter(self._buckets))]
        bucket.left = min(self._at_most, bucket.left + max(now - bucket.since, 0.0) * self._a_second)
        bucket.since = max(bucket.since, now)
        if bucket.left < cost:
            return False
        bucket.left -= cost
        return True

    def earn(self, who: Hashable, gain: float) -> None:
        """Give a sender something back."""
        if who in self._buckets:
            self._buckets[who].left = min(self._at_most, self._buckets[who].left + gain)
