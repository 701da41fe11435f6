"""Bodies on their way: how far each has come, and how long it still takes at its pace. No I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpeer.peer.assembly import Assembly
from dpeer.peer.lanes import Lanes
from dpeer.peer.membership import Membership
from dpeer.results.units import duration, size

_DEADLINES = 10
"""A body that comes at a pace at which it takes more deadlines than these is not worth waiting for."""


@dataclass(frozen=True)
class Flow:
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
        return waited + self.left <= _DEADLINES * deadline

    def __str__(self) -> str:
        words = f"{size(self.done)} of {size(self.total)} of its body {'have come' if self.incoming else 'are sent'}"
        if not 0 < self.left < math.inf:
            return words
        return f"{words}, {size(round(self.done / self.seconds))}/s, about {duration(self.left)} to go"


class Flows:
    """Looks for bodies on their way.

    Args:
        members: The neighbors, and their links.
        assembly: What comes in pieces.
        lanes: What goes in pieces.
        dead_after: Seconds without bytes after which a body is not on its way any more.
    """

    def __init__(self, members: Membership, assembly: Assembly, lanes: Lanes, dead_after: float) -> None:
        self._members, self._assembly, self._lanes = members, assembly, lanes
        self._dead_after = dead_after
        self._sent: dict[int, _Sent] = {}

    def coming(self, rank: int, number: int, now: float) -> Flow | None:
        """Round `number`'s body from this rank, or an earlier one that comes first; None if nothing comes."""
        arriving = self._assembly.get(self._members[rank].link)
        if arriving is None or arriving.body.round > number:
            return None
        found = Flow(
            arriving.got, arriving.body.payload_bytes, now - arriving.since, now - arriving.last, incoming=True
        )
        return found if found.silent < self._dead_after else None

    def going(self, rank: int, now: float) -> Flow | None:
        """The body that is written to this rank, as far as its line has taken it; None if nothing moves."""
        lane = self._lanes.get(self._members[rank].link)
        body = None if lane is None or not lane.bodies else lane.bodies[min(lane.bodies)]
        if body is None:
            self._sent.pop(rank, None)
            return None
        sent = self._sent.get(rank)
        if sent is None or sent.body is not body:
            sent = self._sent[rank] = _Sent(body, now, now, body.offset)
        elif body.offset > sent.offset:
            sent.offset, sent.last = body.offset, now
        found = Flow(sent.offset, body.total, now - sent.since, now - sent.last, incoming=False)
        return found if found.silent < self._dead_after else None


@dataclass
class _Sent:
    """How far a body had been written when it was looked at last."""

    body: object
    since: float
    last: float
    offset: int
