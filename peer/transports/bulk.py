"""Long messages between peers with keys: announced over CURVE, and carried as encrypted records beside it.

libzmq's encryption takes several times as long as a plain socket does. So the dialling side asks each listener for a
second connection, a plain TCP one, for the buffers of messages that have at least `LONG` bytes of them:

    dialler   over CURVE   ASK    a key for what it will send
    listener  over CURVE   OFFER  a port, a token, and a key for what it will send
    dialler   over TCP     the token, and record 0, which holds the token: so it has its key
    listener  over TCP     its own record 0 with the token: so it has its key
    both      over CURVE   MARK   the header of a message, and the lengths of the buffers that come over TCP now

Who is at the other end, and the keys, are known from CURVE alone. What comes on a link after a MARK waits until these
buffers have come, so messages keep their order. Where there is no second connection, everything goes over CURVE.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.limits import LONG, UNREAD, Limits
from dpeer.peer.core.wire import Frames
from dpeer.peer.learner import Buffer
from dpeer.peer.transports.aead_records import KEY_BYTES, new_key
from dpeer.peer.transports.base import Arrival, Link, Room, Sent, Slower
from dpeer.peer.transports.bulk_handshake import TOKEN_BYTES, Meeting, Met, Offer
from dpeer.peer.transports.channel import Channel
from dpeer.peer.transports.keys import Identity
from dpeer.peer.transports.ordered_link import Way

if TYPE_CHECKING:
    from dpeer.peer.transports.zeromq import ZeroMQTransport

_ASK, _OFFER, _MARK = b"\x00A", b"\x00O", b"\x00M"
"""How what is said here begins; no message of a peer begins so."""

_ASKED = struct.Struct(f"<2s{KEY_BYTES}s")
_OFFERED = struct.Struct(f"<2sH{TOKEN_BYTES}s{KEY_BYTES}s")


class Bulk:
    """The second connections of a transport's links.

    Args:
        transport: Sends what is said over CURVE, and takes what has come.
        limits: Of messages.
        longest: The most bytes that the buffers of a message may have.
        give_up: Seconds after which a connection breaks whose other end confirms nothing.
    """

    def __init__(self, transport: ZeroMQTransport, limits: Limits, longest: int, give_up: float) -> None:
        self._transport, self._limits, self._longest = transport, limits, longest
        self._meeting = Meeting(self._use, give_up)
        self._ways: dict[Link, Way] = {}
        self._asked: dict[Link, tuple[str, bytes]] = {}
        self._links: dict[Identity, Link] = {}
        self._replaced: dict[Identity, Link] = {}
        self._changed = asyncio.Event()

    def listen(self, host: str, port: int) -> None:
        """Accept second connections at the host's port, 0 for a free one.

        Raises:
            AddressError: the port cannot be had; names it.
        """
        self._meeting.listen(host, port)

    def ask(self, link: Link, host: str, end: Callable[[], object]) -> None:
        """Ask whoever listens at this host, on a link that was just established, for a second connection.

        Args:
            link: The dialled link.
            host: The IP address that was dialled.
            end: Breaks the link, which is established again.
        """
        self._add(link, link, end)
        self._asked[link] = host, new_key()
        self._transport.write(link, [_ASKED.pack(_ASK, self._asked[link][1])])

    def forget(self, link: Link) -> None:
        """Close a link's second connection, because the link is broken or given up."""
        self._asked.pop(link, None)
        way = self._ways.pop(link, None)
        if way is not None:
            way.close()

    async def close(self, linger: float) -> None:
        """Write what is unsent and let the others read it, for at most `linger` seconds; close every connection."""
        self._meeting.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(linger):
                while any(channel.busy for channel in self._channels()):
                    await self._change()
                for channel in self._channels():
                    channel.finish()
                while self._channels():  # the others have not read all
                    await self._change()
        for link in [*self._ways]:
            self.forget(link)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _channels(self) -> list[Channel]:
        return [way.channel for way in self._ways.values() if way.channel is not None]

    # -- sending -----------------------------------------------------------------------------------------------

    def takes(self, link: Link, frames: Frames) -> bool:
        """Whether a message is to be sent with `send`."""
        way = self._ways.get(link)
        return way is not None and way.channel is not None and sum(_sizes(frames[1:])) >= LONG

    def send(self, link: Link, frames: Frames) -> Sent:
        """Announce a message, and send its buffers. If the link is FULL, there is a `Room` as soon as there is room."""
        channel = self._ways[link].channel
        assert channel is not None, "`takes` has said so"
        if channel.busy:
            return Sent.FULL
        lengths = _sizes(frames[1:])
        sent = self._transport.write(link, [_MARK + struct.pack(f"<{len(lengths)}I", *lengths), frames[0]])
        if sent is Sent.TAKEN:
            channel.send([memoryview(part).cast("B") for part in frames[1:]])
        return sent

    # -- what comes over CURVE ---------------------------------------------------------------------------------

    def came(self, queue: Link, arrival: Arrival, end: Callable[[], object]) -> None:
        """Take a message that has come over CURVE.

        Args:
            queue: The transport's queue that the link's messages go to.
            arrival: The message.
            end: Breaks the link.
        """
        link, frames, _ = arrival
        kind, way = bytes(frames[0][:2]), self._ways.get(link)
        try:
            if kind == _ASK and way is None:
                self._on_ask(queue, arrival, end)
            elif kind == _OFFER and link in self._asked:
                self._on_offer(link, frames)
            elif way is None:
                self._transport.push(queue, arrival)
            elif way.broken:
                pass  # what came before it is lost
            elif kind == _MARK:
                self._on_mark(way, arrival)
            else:
                way.take(arrival)
        except (struct.error, ProtocolError):
            if way is not None:
                way.break_off()
            else:
                end()

    def room(self, queue: Link) -> None:
        """There is room in a queue again."""
        for way in self._ways.values():
            if way.queue == queue:
                way.room()

    def _on_ask(self, queue: Link, arrival: Arrival, end: Callable[[], object]) -> None:
        link, frames, identity = arrival
        _, theirs = _ASKED.unpack(frames[0])
        if identity is None:
            return
        self._replace(identity, link)
        way = self._add(queue, link, end)  # also where there is no port: whoever asks on and on is heard by the core
        if self._meeting.port is None:
            return
        way.coming = True
        offer = self._meeting.offers[identity] = Offer(link, theirs)
        said = _OFFERED.pack(_OFFER, self._meeting.port, offer.token, offer.own)
        if self._transport.write(link, [said]) is not Sent.TAKEN:
            self.forget(link)

    def _replace(self, identity: Identity, link: Link) -> None:
        """Note the newest link of somebody. What comes on the one before it still is dropped: bodies of it are lost."""
        self.forget(self._replaced.pop(identity, None))
        earlier = self._ways.get(self._links.get(identity))
        if earlier is not None:
            earlier.close()
            earlier.broken = True
            self._replaced[identity] = self._links[identity]
        self._links[identity] = link

    def _on_offer(self, link: Link, frames: Frames) -> None:
        _, port, token, theirs = _OFFERED.unpack(frames[0])
        host, own = self._asked.pop(link)
        way = self._ways[link]
        way.coming = True
        self._meeting.connect(host, port, Offer(link, theirs, own, token), partial(self._failed, link, way))

    def _on_mark(self, way: Way, arrival: Arrival) -> None:
        mark, *header = arrival.frames
        lengths = [length for (length,) in struct.iter_unpack("<I", mark[2:])]
        if len(header) != 1 or len(lengths) > self._limits.buffers or not LONG <= sum(lengths) <= self._longest:
            raise ProtocolError("oversized", f"{sum(lengths)} bytes in {len(lengths)} buffers are announced")
        way.announce(arrival._replace(frames=header), lengths)

    # -- channels ----------------------------------------------------------------------------------------------

    def _add(self, queue: Link, link: Link, end: Callable[[], object]) -> Way:
        self.forget(link)
        way = self._ways[link] = Way(
            queue, end, partial(self._transport.push, queue), lambda: self._transport.waiting(queue) >= UNREAD
        )
        return way

    def _use(self, link: Link, met: Met) -> bool:
        way = self._ways.get(link)
        if way is None or way.broken:
            return False
        drained, ended = partial(self._drained, link, way), partial(self._ended, link, way)
        way.attach(Channel(met.connection, met.sealing, met.opening, way.arrived, drained, ended))
        return True

    def _drained(self, link: Link, way: Way) -> None:
        self._changed.set()
        self._transport.push(way.queue, Room(link))

    def _failed(self, link: Link, way: Way, reason: str) -> None:
        if self._ways.get(link) is way:
            self._transport.push(way.queue, Slower(link, reason))
            self._ended(link, way, None)

    def _ended(self, link: Link, way: Way, lost: str | None) -> None:
        """There is no second connection any more. If something is missing, the link breaks."""
        self._changed.set()
        if self._ways.get(link) is not way:
            return
        if lost is None and not way.waits:
            way.close()
        else:
            way.break_off()


def _sizes(buffers: Sequence[Buffer]) -> list[int]:
    return [memoryview(part).nbytes for part in buffers]
