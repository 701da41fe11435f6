"""What comes on one link in two ways: messages over CURVE, and the buffers of announced ones on a channel beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.limits import HELD, HELD_BYTES
from dpeer.peer.transports.base import Arrival, Link
from dpeer.peer.transports.channel import Channel, Incoming

_LENGTH = 64
"""Bytes of memory that the length of an announced buffer takes, about."""


@dataclass(frozen=True)
class _Announced:
    arrival: Arrival
    incoming: Incoming
    lengths: int

    @property
    def nbytes(self) -> int:
        """What is kept as long as the buffers do not come."""
        return wire.size(self.arrival.frames) + _LENGTH * self.lengths

    def whole(self) -> Arrival:
        return self.arrival._replace(frames=[*self.arrival.frames, *self.incoming.buffers])


class Way:
    """Keeps the messages of a link in their order: what comes after an announcement waits for what was announced.

    Args:
        queue: Where the messages go to.
        end: Breaks the link.
        push: Takes the messages, in order.
        full: Whether no more should be pushed for now; then nothing is read on the channel until `room` is called.

    Attributes:
        channel: The connection beside the link; None while there is none.
        coming: Whether there is one, or is going to be.
        broken: Whether the link has been broken off: what comes on it still is dropped.
    """

    def __init__(
        self, queue: Link, end: Callable[[], object], push: Callable[[Arrival], None], full: Callable[[], bool]
    ) -> None:
        self.queue, self._end = queue, end
        self.channel: Channel | None = None
        self.coming = self.broken = False
        self._push, self._full = push, full
        self._held: deque[Arrival | _Announced] = deque()
        self._held_bytes = 0

    @property
    def waits(self) -> bool:
        """Whether something that was announced has not come."""
        return bool(self._held)

    def attach(self, channel: Channel) -> None:
        """Use this connection. Messages may have been announced already."""
        self.channel, self.coming = channel, True
        for one in self._held:
            if isinstance(one, _Announced):
                channel.expect(one.incoming)
        self.room()

    def take(self, arrival: Arrival) -> None:
        """Take a message that has come over CURVE.

        Raises:
            ProtocolError: reason "too-many": more than there can be has come after what was announced, which has not.
        """
        if not self._held:
            self._push(arrival)
            return
        self._hold(arrival, wire.size(arrival.frames))

    def announce(self, arrival: Arrival, lengths: Sequence[int]) -> None:
        """Take a message whose buffers come on the channel.

        Args:
            arrival: The message without them.
            lengths: Bytes of each of them.

        Raises:
            ProtocolError: reason "too-many" as above, or "malformed": there is no such connection.
        """
        if not self.coming:
            raise ProtocolError("malformed", "a message is announced on a connection that there is not")
        incoming = Incoming(lengths)
        announced = _Announced(arrival, incoming, len(lengths))
        self._hold(announced, announced.nbytes)
        if self.channel is not None:
            self.channel.expect(incoming)

    def _hold(self, one: Arrival | _Announced, nbytes: int) -> None:
        self._held.append(one)
        self._held_bytes += nbytes
        if len(self._held) > HELD or self._held_bytes > HELD_BYTES:
            raise ProtocolError("too-many", "the buffers of a message that was announced do not come")

    def arrived(self) -> None:
        """The channel has what was announced first: push it, and what came after it."""
        while self._held:
            one = self._held[0]
            if isinstance(one, _Announced):
                if not one.incoming.complete:
                    break
                self._held_bytes -= one.nbytes
                self._push(one.whole())
            else:
                self._held_bytes -= wire.size(one.frames)
                self._push(one)
            self._held.popleft()
        self.room()

    def room(self) -> None:
        """See whether more may be pushed."""
        if self.channel is not None:
            self.channel.set_paused(self._full())

    def close(self) -> None:
        """Close the channel, and forget what waits for it."""
        self.coming = False
        if self.channel is not None:
            self.channel.close()
            self.channel = None
        self._held.clear()
        self._held_bytes = 0

    def break_off(self) -> None:
        """Break the link: something that was sent on it is lost."""
        self.close()
        self.broken = True
        self._end()
