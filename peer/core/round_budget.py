"""Round budget (`--round-seconds`): share of a round's steps that fits given seconds or neighbors' pace; no I/O."""

from __future__ import annotations

from collections import deque
from statistics import fmean, median
from typing import Literal, NamedTuple

_WINDOW = 3
"""Rounds that count: the last ones. A peer that has become slower, or faster, is one that soon."""

_FIRST = 0.05
"""The share of a first round."""

_TIMES = 1.25
"""Of what the neighbors take. The rest keeps peers that are equally fast from shortening their rounds in turn, and lets
a shortened round grow again."""


class RoundLimit(NamedTuple):
    """The limit of a round's local training, as it goes to disk.

    Attributes:
        share: Of the steps of each phase, 0 to 1.
        seconds: How long it may take; None before that is known.
        whole: How long all steps would take; None before a round was trained.
    """

    share: float
    seconds: float | None
    whole: float | None


class RoundBudget:
    """The share of its steps that each round trains, so that they take a given time, or what neighbors take.

    All steps would take as long as those of the round before, and the rest of them. Before that is known a round that
    has a limit trains a twentieth of its steps.

    "auto" finds the seconds from the bodies that come: a neighbor has taken as long as from the begin of this peer's
    training to the arrival of its body. A round may take a quarter more than the mean over the neighbors, of the last
    rounds the median. With their maximum two slow peers side by side would never become quicker, and with their minimum
    a quick one would drag all others along.

    Training may always take as long as what follows when the bodies are there, such as a slow evaluation. Of two
    neighbors one that hurries, or is hostile, takes three eighths of what the other one leaves.

    Args:
        given: Seconds; "auto"; None for no budget.

    Attributes:
        share: Of the steps of the present round, 0 to 1.
    """

    def __init__(self, given: float | Literal["auto"] | None) -> None:
        self.share = 1.0
        self._given = given
        self._whole: float | None = None
        self._taken: deque[float] = deque(maxlen=_WINDOW)
        self._number = -1
        self._began = 0.0
        self._released: float | None = None
        self._elsewhere = 0.0
        self._arrivals: dict[tuple[int, int], float] = {}

    def resume(self, limit: RoundLimit) -> None:
        """Go on from the limit that an earlier process had."""
        if self._given == "auto" and limit.seconds is not None:
            self._taken.append(limit.seconds / _TIMES)
        self._whole = limit.whole

    def begin(self, number: int, now: float) -> RoundLimit | None:
        """Note that round `number`'s training begins; returns its limit, None without a budget."""
        if self._released is not None:
            arrivals = [at for (_, round_), at in self._arrivals.items() if round_ == self._number]
            if arrivals:
                self._taken.append(fmean(max(0.0, at - self._began) for at in arrivals))
            if number == self._number + 1:  # none was sat out in between
                self._elsewhere = now - max([self._released, *arrivals])
        self._number, self._began, self._released = number, now, None
        if self._given is None:
            return None
        seconds = self.seconds
        if seconds is None:
            self.share = 1.0
        else:
            self.share = _FIRST if self._whole is None else min(1.0, seconds / max(self._whole, 1e-9))
        return RoundLimit(self.share, seconds, self._whole)

    def trained(self, share: float, now: float) -> None:
        """Note that the present round's training, of this share of its steps, is over."""
        if share > 0.0:
            self._whole = (now - self._began) / share

    def arrived(self, rank: int, number: int, now: float) -> None:
        """Note that a neighbor's body of a round has come."""
        if self._given == "auto":
            self._arrivals.setdefault((rank, number), now)
            # A quick neighbor's next body comes before a slow one's of this round, and counts in the next.
            last = max(round_ for _, round_ in self._arrivals)
            kept = (self._number, last - 1, last)
            self._arrivals = {key: at for key, at in self._arrivals.items() if key[1] in kept}

    def released(self, number: int, now: float) -> None:
        """Note that this peer releases the body of a round."""
        if number == self._number:
            self._released = now

    @property
    def seconds(self) -> float | None:
        """The seconds of the present round; None for no limit."""
        if self._given != "auto":
            return self._given
        return max(_TIMES * median(self._taken), self._elsewhere) if self._taken else None
