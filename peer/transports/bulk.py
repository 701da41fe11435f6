"""Long messages between peers with keys: announced over CURVE, and carried as encrypted records beside it.

libzmq's encryption takes several times as long as a plain socket does. So the dialling side asks each listener for a
second connection, a plain TCP one, for the buffers of messages that have at least `LONG` bytes of them:

    dialler   over CURVE   ASK    its sending key
    listener  over CURVE   OFFER  a port, a token, and its sending key
    dialler   over TCP     the token, and record 0, which holds the token: so it has its key
    listener  over TCP     its own record 0 with the token: so it has its key
    both      over CURVE   MARK   the header of a message, and the lengths of the buffers that come over TCP now

Identities and keys are known from CURVE alone. Messages of a link that come after a MARK wait until its buffers have
come, so messages keep their order. Without a second connection everything goes over CURVE. `bulk_channel` has the half
on TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from dpeer.exceptions import ProtocolError
from dpeer.peer.core import wire
from dpeer.peer.core.limits import HELD, HELD_BYTES, LONG, UNREAD, Limits
from dpeer.peer.core.wire import Frames
from dpeer.peer.learner import Buffer
from dpeer.peer.transport import Arrival, Event, Identity, Link, Sent, Slower, Writable
from dpeer.peer.transports.aead_records import KEY_BYTES, new_key
from dpeer.peer.transports.bulk_channel import TOKEN_BYTES, BulkChannel, BulkConnector, Incoming, Offer, Proved
from dpeer.peer.transports.dial_out import DialOut

_ASK, _OFFER, _MARK = b"\x00A", b"\x00O", b"\x00M"
"""First bytes of this protocol's messages; no message of a peer begins with them."""

_ASKED = struct.Struct(f"<2s{KEY_BYTES}s")
_OFFERED = struct.Struct(f"<2sH{TOKEN_BYTES}s{KEY_BYTES}s")

_LENGTH = 64
"""Bytes of memory that the length of an announced buffer takes, about."""


class CurveLinks(Protocol):
    """The transport's links over CURVE, and its events."""

    def write(self, link: Link, frames: Frames) -> Sent:
        """Send a message over CURVE."""

    def push(self, queue: Link, event: Event) -> None:
        """Add an event to a queue."""

    def waiting(self, queue: Link) -> int:
        """The number of events that wait in a queue."""


@dataclass(frozen=True)
class _Announced:
    arrival: Arrival
    incoming: Incoming
    lengths: int

    @property
    def nbytes(self) -> int:
        """The bytes that are kept as long as the buffers do not come."""
        return wire.size(self.arrival.frames) + _LENGTH * self.lengths

    def whole(self) -> Arrival:
        return self.arrival._replace(frames=[*self.arrival.frames, *self.incoming.buffers])


class BulkLink:
    """Keeps the messages of a link in their order: those after an announcement wait for its buffers.

    Args:
        queue: The queue of the messages.
        end: Breaks the link.
        push: Takes the messages, in order.
        full: Whether no more should be pushed for now; then nothing is read on the channel until `drained` is called.

    Attributes:
        channel: The second connection; None without one.
        coming: Whether it is there, or on its way.
        broken: Whether the link has been broken off: further messages on it are dropped.
        held_bytes: Bytes of the messages that wait for announced buffers.
    """

    def __init__(
        self, queue: Link, end: Callable[[], object], push: Callable[[Arrival], None], full: Callable[[], bool]
    ) -> None:
        self.queue, self._end = queue, end
        self.channel: BulkChannel | None = None
        self.coming = self.broken = False
        self._push, self._full = push, full
        self._held: deque[Arrival | _Announced] = deque()
        self.held_bytes = 0

    @property
    def waits(self) -> bool:
        """Whether buffers that were announced have not come."""
        return bool(self._held)

    def attach(self, channel: BulkChannel) -> None:
        """Use this connection. Messages may have been announced already."""
        self.channel, self.coming = channel, True
        for one in self._held:
            if isinstance(one, _Announced):
                channel.expect(one.incoming)
        self.drained()

    def take(self, arrival: Arrival) -> None:
        """Take a message that has come over CURVE.

        Raises:
            ProtocolError: reason "too-many": more has come after an announcement than can come before its buffers.
        """
        if self._held:
            self._hold(arrival, wire.size(arrival.frames))
        else:
            self._push(arrival)

    def announce(self, arrival: Arrival, lengths: Sequence[int]) -> None:
        """Take a message whose buffers, of these lengths, come on the channel.

        Raises:
            ProtocolError: reason "too-many" as above, or "malformed": the link has no channel.
        """
        if not self.coming:
            raise ProtocolError("malformed", "a message is announced without a second connection")
        announced = _Announced(arrival, Incoming(lengths), len(lengths))
        self._hold(announced, announced.nbytes)
        if self.channel is not None:
            self.channel.expect(announced.incoming)

    def _hold(self, one: Arrival | _Announced, nbytes: int) -> None:
        self._held.append(one)
        self.held_bytes += nbytes
        if len(self._held) > HELD or self.held_bytes > HELD_BYTES:
            raise ProtocolError("too-many", "the buffers of a message that was announced do not come")

    def arrived(self) -> None:
        """Push the message that was announced first, and those after it: the channel has its buffers."""
        while self._held:
            one = self._held[0]
            if isinstance(one, _Announced):
                if not one.incoming.complete:
                    break
                self.held_bytes -= one.nbytes
                self._push(one.whole())
            else:
                self.held_bytes -= wire.size(one.frames)
                self._push(one)
            self._held.popleft()
        self.drained()

    def drained(self) -> None:
        """See whether more may be pushed."""
        if self.channel is not None:
            self.channel.set_paused(self._full())

    def close(self) -> None:
        """Close the channel, and forget the messages that wait for it."""
        self.coming = False
        if self.channel is not None:
            self.channel.close()
            self.channel = None
        self._held.clear()
        self.held_bytes = 0

    def break_off(self) -> None:
        """Break the link: something that was sent on it is lost."""
        self.close()
        self.broken = True
        self._end()


class Bulk:
    """The second connections of a transport's links.

    Args:
        curve: The links themselves.
        limits: Of messages.
        longest: The most bytes of a message's buffers.
        dial_out: Makes the connections.
        give_up: Seconds after which an accepted connection breaks whose other end confirms nothing.

    Attributes:
        connector: Makes the connections.
        newest: The newest link of each peer that asked for a connection.
    """

    def __init__(self, curve: CurveLinks, limits: Limits, longest: int, dial_out: DialOut, give_up: float) -> None:
        self.connector = BulkConnector(self._use, dial_out, give_up)
        self._curve, self._limits, self._longest = curve, limits, longest
        self._links: dict[Link, BulkLink] = {}
        self._asked: dict[Link, tuple[str, bytes]] = {}
        self.newest: dict[Identity, Link] = {}
        self._replaced: dict[Identity, Link] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._links)

    def get(self, link: Link) -> BulkLink | None:
        """The state of a link; None before a second connection was asked for on it."""
        return self._links.get(link)

    def ask(self, link: Link, host: str, end: Callable[[], object]) -> None:
        """Ask the listener at this host, on a link that was just established, for a second connection.

        Args:
            link: The dialled link.
            host: The IP address that was dialled; the host of the address, where it is dialled through a proxy.
            end: Breaks the link, which is established again.
        """
        self._add(link, link, end)
        self._asked[link] = host, new_key()
        self._curve.write(link, [_ASKED.pack(_ASK, self._asked[link][1])])

    def forget(self, link: Link) -> None:
        """Close a link's second connection, because the link is broken or given up."""
        self._asked.pop(link, None)
        found = self._links.pop(link, None)
        if found is not None:
            found.close()

    async def close(self, linger: float) -> None:
        """Write unsent bytes and let the others read them, for at most `linger` seconds; close every connection."""
        self.connector.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(linger):
                while any(channel.busy for channel in self.channels()):
                    await self._change()
                for channel in self.channels():
                    channel.finish()
                while self.channels():  # the others have not read all
                    await self._change()
        for link in [*self._links]:
            self.forget(link)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def channels(self) -> list[BulkChannel]:
        """All second connections."""
        return [one.channel for one in self._links.values() if one.channel is not None]

    # -- sending -----------------------------------------------------------------------------------------------

    def takes(self, link: Link, frames: Frames) -> bool:
        """Whether a message is to be sent with `send`."""
        found = self._links.get(link)
        return found is not None and found.channel is not None and sum(_sizes(frames[1:])) >= LONG

    def send(self, link: Link, frames: Frames) -> Sent:
        """Announce a message, and send its buffers. After FULL a `Writable` follows."""
        channel = self._links[link].channel
        assert channel is not None, "see `takes`"
        if channel.busy:
            return Sent.FULL
        lengths = _sizes(frames[1:])
        sent = self._curve.write(link, [_MARK + struct.pack(f"<{len(lengths)}I", *lengths), frames[0]])
        if sent is Sent.TAKEN:
            channel.send([memoryview(part).cast("B") for part in frames[1:]])
        return sent

    # -- messages over CURVE -----------------------------------------------------------------------------------

    def came(self, queue: Link, arrival: Arrival, end: Callable[[], object]) -> None:
        """Take a message that has come over CURVE.

        Args:
            queue: The transport's queue for the link's messages.
            arrival: The message.
            end: Breaks the link.
        """
        link, frames = arrival.link, arrival.frames
        kind, found = bytes(frames[0][:2]), self._links.get(link)
        try:
            if kind == _ASK and found is None:
                self._on_ask(queue, arrival, end)
            elif kind == _OFFER and link in self._asked:
                self._on_offer(link, frames)
            elif found is None:
                self._curve.push(queue, arrival)
            elif found.broken:
                pass  # a message before it is lost
            elif kind == _MARK:
                self._on_mark(found, arrival)
            else:
                found.take(arrival)
        except (struct.error, ProtocolError):
            if found is not None:
                found.break_off()
            else:
                end()

    def drained(self, queue: Link) -> None:
        """Read on for the links whose queue is not full any more."""
        for one in self._links.values():
            if one.queue == queue:
                one.drained()

    def _on_ask(self, queue: Link, arrival: Arrival, end: Callable[[], object]) -> None:
        link, identity = arrival.link, arrival.identity
        _, theirs = _ASKED.unpack(arrival.frames[0])
        if identity is None:
            return
        self._replace(identity, link)
        added = self._add(queue, link, end)  # also without a port: one that asks on and on is heard by the core
        if self.connector.port is None:
            return
        added.coming = True
        offer = self.connector.offers[identity] = Offer(link, theirs)
        offered = _OFFERED.pack(_OFFER, self.connector.port, offer.token, offer.own)
        if self._curve.write(link, [offered]) is not Sent.TAKEN:
            self.forget(link)

    def _replace(self, identity: Identity, link: Link) -> None:
        """Note the newest link of a peer. What still comes on the one before is dropped: bodies of it are lost."""
        self.forget(self._replaced.pop(identity, None))
        earlier = self._links.get(self.newest.get(identity))
        if earlier is not None:
            earlier.close()
            earlier.broken = True
            self._replaced[identity] = self.newest[identity]
        self.newest[identity] = link

    def _on_offer(self, link: Link, frames: Frames) -> None:
        _, port, token, theirs = _OFFERED.unpack(frames[0])
        host, own = self._asked.pop(link)
        found = self._links[link]
        found.coming = True
        self.connector.connect(host, port, Offer(link, theirs, own, token), partial(self._failed, link, found))

    def _on_mark(self, found: BulkLink, arrival: Arrival) -> None:
        mark, *header = arrival.frames
        lengths = [length for (length,) in struct.iter_unpack("<I", mark[2:])]
        if len(header) != 1 or len(lengths) > self._limits.buffers or not LONG <= sum(lengths) <= self._longest:
            raise ProtocolError("oversized", f"{sum(lengths)} bytes in {len(lengths)} buffers are announced")
        found.announce(arrival._replace(frames=header), lengths)

    # -- channels ----------------------------------------------------------------------------------------------

    def _add(self, queue: Link, link: Link, end: Callable[[], object]) -> BulkLink:
        self.forget(link)
        push, full = partial(self._curve.push, queue), lambda: self._curve.waiting(queue) >= UNREAD
        added = self._links[link] = BulkLink(queue, end, push, full)
        return added

    def _use(self, link: Link, proved: Proved) -> bool:
        found = self._links.get(link)
        if found is None or found.broken:
            return False
        drained, ended = partial(self._written, link, found), partial(self._ended, link, found)
        found.attach(BulkChannel(proved, found.arrived, drained, ended))
        return True

    def _written(self, link: Link, found: BulkLink) -> None:
        self._changed.set()
        self._curve.push(found.queue, Writable(link))

    def _failed(self, link: Link, found: BulkLink, reason: str) -> None:
        if self._links.get(link) is found:
            self._curve.push(found.queue, Slower(link, reason))
            self._ended(link, found, None)

    def _ended(self, link: Link, found: BulkLink, lost: str | None) -> None:
        """The second connection has ended. If something is missing, the link breaks."""
        self._changed.set()
        if self._links.get(link) is not found:
            return
        if lost is None and not found.waits:
            found.close()
        else:
            found.break_off()


def _sizes(buffers: Sequence[Buffer]) -> list[int]:
    return [memoryview(part).nbytes for part in buffers]
