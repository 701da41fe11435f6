"""How much others may ask of this peer: counted in messages, over time. Bookkeeping; no I/O.

An honest neighbor's messages are few, or bodies that are used. One that sends what is of no use, without end, would
have the event loop do nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass
class _Purse:
    left: float
    since: float


class Allowance:
    """What each sender has left. It grows with time, up to a bound.

    Args:
        a_second: What everybody gets a second.
        at_most: What everybody begins with, and has at most.
        senders: How many are remembered; those who have not sent anything for longest are forgotten.
    """

    def __init__(self, a_second: float, at_most: float, senders: int) -> None:
        self._a_second, self._at_most, self._senders = a_second, at_most, senders
        self._purses: dict[Hashable, _Purse] = {}

    def spend(self, who: Hashable, cost: float, now: float) -> bool:
        """Take this from what a sender has left, if there is as much; return whether there was."""
        purse = self._purses.pop(who, None) or _Purse(self._at_most, now)
        self._purses[who] = purse  # the last one of all
        if len(self._purses) > self._senders:
            del self._purses[next(iter(self._purses))]
        purse.left = min(self._at_most, purse.left + max(now - purse.since, 0.0) * self._a_second)
        purse.since = max(purse.since, now)
        if purse.left < cost:
            return False
        purse.left -= cost
        return True

    def earn(self, who: Hashable, gain: float) -> None:
        """Give a sender something back."""
        if who in self._purses:
            self._purses[who].left = min(self._at_most, self._purses[who].left + gain)
