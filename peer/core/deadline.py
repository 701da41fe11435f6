"""Deadline (`--deadline`): seconds that a round waits for a body, and how far each body on its way has come; no I/O."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Literal

from dpeer.peer.core.state import State
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


LONGEST = 10
"""A body that comes at a pace at which it takes more deadlines than these is not worth waiting for."""


@dataclass(frozen=True)
class Transfer:
    """A body on its way to or from a neighbor.

    Attributes:
        done: Bytes that have come, or gone.
        total: Bytes of the whole body.
        seconds: Since its header.
        silent: Seconds since its last bytes.
        incoming: Whether it comes.
    """

    done: int
    total: int
    seconds: float
    silent: float
    incoming: bool

    @property
    def left(self) -> float:
        """Seconds until the rest is there at the pace so far; infinity if nothing is there yet."""
        return (self.total - self.done) * self.seconds / self.done if self.done else math.inf

    def worth_waiting(self, waited: float, deadline: float) -> bool:
        """Whether a round waits for it although its deadline is over.

        Args:
            waited: Seconds for which the round has waited.
            deadline: Seconds after which it goes on without a neighbor that sends nothing.
        """
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


class TransferProgress:
    """How far each body on its way has come, and how long the rest takes at its pace.

    Written bytes may wait in buffers of the operating system for as long as a slow line takes. So neighbors
    acknowledge in their heartbeats how much has come. A body of which no bytes have moved for `dead_after` is not on
    its way any more.
    """

    def __init__(self, state: State) -> None:
        self._members, self._reassembly, self._send_queues = state.members, state.reassembly, state.send_queues
        self._dead_after = state.config.liveness.dead_after
        self._sent: dict[int, _Sent] = {}
        self._moved: dict[int, float] = {}

    def coming(self, rank: int, number: int, now: float) -> Transfer | None:
        """Round `number`'s body from this rank, or an earlier one that comes first; None if nothing comes."""
        arriving = self._reassembly.get(self._members[rank].link)
        if arriving is None or arriving.body.round > number:
            return None
        found = Transfer(
            arriving.got, arriving.body.payload_bytes, now - arriving.since, now - arriving.last, incoming=True
        )
        return found if found.silent < self._dead_after else None

    def acknowledged(self, rank: int, got: int, now: float) -> None:
        """Note how many bytes of this peer's body a neighbor acknowledges; 0 if none is on its way."""
        queue = self._send_queues.get(self._members[rank].link)
        sent = self._sent.get(rank)
        if not got or queue is None or got > queue.total:
            if sent is not None:
                del self._sent[rank]
                self._moved[rank] = now
        elif sent is None or got < sent.done:
            self._sent[rank] = _Sent(got, got, queue.total, now, now)
            self._moved[rank] = now
        elif got > sent.done:
            sent.done, sent.last = got, now
            self._moved[rank] = now

    def going(self, rank: int, now: float) -> Transfer | None:
        """This peer's body on its way to this rank, as far as the rank has acknowledged it; None if nothing moves."""
        sent = self._sent.get(rank)
        if sent is None or now - sent.last >= self._dead_after:
            return None
        seconds = (now - sent.since) * sent.done / more if (more := sent.done - sent.first) else 0.0
        return Transfer(sent.done, sent.total, seconds, now - sent.last, incoming=False)

    def moved(self, rank: int) -> float:
        """When the rank last acknowledged more of this peer's body; minus infinity if it never did."""
        return self._moved.get(rank, -math.inf)


@dataclass
class _Sent:
    """Bytes of a body that a neighbor acknowledged, first and last, of how many, and when."""

    first: int
    done: int
    total: int
    since: float
    last: float
