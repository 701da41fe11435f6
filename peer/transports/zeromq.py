"""ZeroMQ over tcp:// and ipc://: a ROUTER that listens, a DEALER for each dialled address.

DEALERs are anonymous: the ROUTER names each connection itself, so nobody can take over another's name. Who speaks is
settled by the key that it has proved, or, without keys, by the handshake above. A connection that breaks gets a new
DEALER: the old one would send what was queued for the old connection.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import zmq

from dpeer.exceptions import AddressError
from dpeer.peer.core.limits import KEEPALIVE_IDLE, PIECE, UNREAD, Limits
from dpeer.peer.core.wire import Frames
from dpeer.peer.transports.base import Arrival, Broken, Event, Link, Room, Sent
from dpeer.peer.transports.bulk import Bulk
from dpeer.peer.transports.curve_auth import Door
from dpeer.peer.transports.dealer_link import Line
from dpeer.peer.transports.keys import Identity, Keyring
from dpeer.peer.transports.memory_guard import GAUGED, Gauge
from dpeer.peer.transports.monitors import monitored
from dpeer.peer.transports.reader import Reader
from dpeer.peer.transports.resolving import split

_ADVICE = {
    zmq.EADDRINUSE: "is in use: stop what listens there or choose another port",
    errno.EADDRNOTAVAIL: "is not one of this host's: start this rank on the host that has it; if others reach this "
    "host by it all the same, through a router, say with `bind` where to listen here, such as tcp://0.0.0.0:7700",
}

_SEAL = 64
"""Bytes by which encryption makes a frame longer, at most."""

_LATE = 1.0
"""Seconds after which a link that is gone is given up although the ROUTER was never empty: somebody may flood it."""

_MORE = 3
"""Frames that a message may have beside its buffers: the name of its connection, its header, and one that shows that
there are too many."""

_RETRY = 0.001
_SELDOM = 0.02
"""Seconds after which a full link is tried again, at first and at most: libzmq's word that there is room can get lost
in other calls on the same socket."""


class ZeroMQTransport:
    """A `Transport` over sockets.

    Args:
        limits: The longest frames. libzmq drops a connection on which a longer one is announced, before it takes memory
            for it. A message that is longer than these allow, of however many frames, ends its connection before it is
            complete (`Gauge`; on Linux, and over tcp:// only).
        give_up: Seconds after which a connection breaks whose other end confirms nothing.
        keyring: Whom to let in, and what to prove to whom is dialled; None for connections without encryption.
        bulk: With keys, the port at which a listener accepts second connections for long messages, 0 for a free one;
            None for all in one connection.

    Attributes:
        failures: How often it was tried in vain to connect to an address, on any link.
        gauge: Ends connections on which a message has no end.
    """

    piece_bytes = PIECE

    def __init__(
        self, limits: Limits, give_up: float = 15.0, keyring: Keyring | None = None, bulk: int | None = None
    ) -> None:
        self.keyring = keyring
        self.bulk: Bulk | None = None
        self._limits = limits
        self._longest = max(limits.header_bytes, min(self.piece_bytes, limits.payload_bytes))
        self._bulk_port = bulk
        self._give_up = give_up
        self._door: Door | None = None
        self.gauge = Gauge(self, limits)
        self._context = zmq.Context()
        self._router: zmq.Socket[bytes] | None = None
        self._monitor: zmq.Socket[bytes] | None = None
        self._lines: dict[Link, Line] = {}
        self._dialled = 0
        self.failures: Counter[str] = Counter()
        self._readers: dict[zmq.Socket[bytes], Reader] = {}
        self._queues: dict[Link, deque[Event]] = {}
        self._turns: deque[Link] = deque()
        self._something = asyncio.Event()
        self._full: dict[Link, None] = {}
        self._lost: dict[Link, None] = {}
        self._closed = False
        self._retry: asyncio.TimerHandle | None = None
        self._pause = _RETRY
        if keyring is not None:
            self.bulk = Bulk(self, limits, self._longest, give_up)

    async def listen(self, address: str) -> str:
        """Bind a ROUTER. Port 0 takes a free port."""
        self._router = self.socket(zmq.ROUTER, address)
        # Without this a message to a link that is gone would vanish silently.
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        if self.keyring is not None:
            self._door = Door(self, self._router, self.keyring)
        else:
            router, self._monitor = self._router, monitored(self._router, GAUGED)
            self.watch(self._monitor, lambda parts: self.gauge.happened(router, parts))
        try:
            self._router.bind(address)
        except zmq.ZMQError as error:
            advice = _ADVICE.get(error.errno or 0, f"cannot be bound: {error.strerror}")
            raise AddressError(f"address {address!r} {advice}") from error
        self.read(self._router, self._router, self._came, self._emptied)
        bound: str = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        place = split(bound)
        if self.bulk is not None and self._bulk_port is not None and place is not None:
            self.bulk.listen(place[0], self._bulk_port)
        return bound

    def _came(self, parts: list[zmq.Frame]) -> None:
        assert self._router is not None, "it has been read"
        link, buffers = parts[0].bytes, _buffers(parts[1:])
        self.gauge.came(self._router, link, parts[1:])
        if self._door is None or self.bulk is None:
            self.push(self._router, Arrival(link, buffers))
        else:
            identity, number = self._door.identify(parts[0])
            self.bulk.came(self._router, Arrival(link, buffers, identity), self._door.ending(number))

    def dial(self, address: str, identity: Identity | None = None) -> Link:
        """Connect a DEALER."""
        if self.keyring is not None and identity not in self.keyring.listed:
            raise ValueError(f"identity {identity}: with keys, dial somebody whose key is listed")
        link: Link = self._dialled
        self._dialled += 1
        self._lines[link] = Line(self, link, address, identity)
        self._lines[link].connect()
        return link

    def drop(self, link: Link) -> None:
        """Close the link's DEALER."""
        line = self._lines.pop(link, None)
        if line is not None:
            line.close()
            if self.bulk is not None:
                self.bulk.forget(link)
            self._queues.pop(link, None)
            self._full.pop(link, None)

    def send(self, link: Link, frames: Frames) -> Sent:
        """Queue a message on the link's socket; libzmq's I/O thread sends it, large frames without a copy."""
        if self.bulk is not None and self.bulk.takes(link, frames):
            return self.bulk.send(link, frames)
        return self.write(link, frames)

    def write(self, link: Link, frames: Frames) -> Sent:
        """Send a message on the link's socket itself."""
        if isinstance(link, bytes):
            socket, parts = self._router, [link, *frames]
        else:
            line = self._lines.get(link)
            if line is None:
                return Sent.GONE
            if not line.up:
                return Sent.FULL  # what has arrived is read first, then the core is told that the link is broken
            socket, parts = line.socket, list(frames)
        if socket is None or socket.closed:
            return Sent.GONE
        if link in self._lost:
            return Sent.FULL
        try:
            socket.send_multipart(parts, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            self._full[link] = None
            self._retry_later()
            return Sent.FULL
        except zmq.ZMQError:
            if socket is not self._router:
                return Sent.GONE
            self._lost[link] = None  # what has arrived from it may not be read yet
            asyncio.get_running_loop().call_later(_LATE, self._emptied)
            return Sent.FULL
        finally:
            self._readers[socket].look_soon()
        self._pause = _RETRY
        return Sent.TAKEN

    async def receive(self) -> Event:
        """What happens next; the sockets have their turns."""
        while True:
            while not self._turns:
                self._something.clear()
                await self._something.wait()
            key = self._turns.popleft()
            queue = self._queues.get(key)
            if queue:
                break
        event = queue.popleft()
        if queue:
            self._turns.append(key)
        if len(queue) == UNREAD - 1:
            line = self._lines.get(key)
            socket = self._router if line is None else line.socket
            if socket in self._readers:
                self._readers[socket].look_soon()
            if self.bulk is not None:
                self.bulk.room(key)
        return event

    async def close(self, linger: float) -> None:
        """Stop receiving, flush for at most `linger` seconds, close every socket; again does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        if self.bulk is not None:
            await self.bulk.close(linger)
        for line in self._lines.values():
            line.close(linger)
        if self._door is not None:
            self._door.close()
        if self._router is not None:
            if self._monitor is not None:
                self._router.disable_monitor()
                self.forget(self._monitor)
            self.forget(self._router, linger)
        # term() waits for the flush; the event loop (other peers of this process, say) must not.
        # The thread is not one of the loop's own pool: that starts another one when it is shut down.
        thread = ThreadPoolExecutor(1, "closing")
        try:
            await asyncio.get_running_loop().run_in_executor(thread, self._context.term)
        except RuntimeError:  # the system gives no thread
            self._context.term()
        finally:
            thread.shutdown(wait=False)

    # -- for lines ---------------------------------------------------------------------------------------------

    def socket(self, kind: int, address: str) -> zmq.Socket[bytes]:
        """A socket that is set up for this address."""
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.setsockopt(zmq.IPV6, "[" in address)
        socket.setsockopt(zmq.MAXMSGSIZE, self._longest + (0 if self.keyring is None else _SEAL))
        socket.setsockopt(zmq.LINGER, 0)
        # A receiver that does not keep up makes TCP, then libzmq, then the core's lane wait, each with a bound.
        socket.setsockopt(zmq.SNDHWM, UNREAD)
        socket.setsockopt(zmq.RCVHWM, UNREAD)
        # Dead hosts are noticed by the transport too (a pulled cable leaves the TCP connection open for hours).
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE)
        socket.setsockopt(zmq.TCP_MAXRT, int(self._give_up * 1000))
        return socket

    def read(
        self,
        key: Link,
        socket: zmq.Socket[bytes],
        handle: Callable[[list[zmq.Frame]], None],
        emptied: Callable[[], None] = lambda: None,
    ) -> None:
        """Read a socket as long as the queue of this key is short."""
        queue = self._queues.setdefault(key, deque())
        self.gauge.add(socket, None if key is socket else key)

        def nothing_waits() -> None:
            emptied()
            self.gauge.emptied(socket)

        self._readers[socket] = Reader(
            socket, handle, lambda: len(queue) < UNREAD, nothing_waits, self._try_again, self._limits.buffers + _MORE
        )

    def look_soon(self, socket: zmq.Socket[bytes]) -> None:
        """Look soon whether a message waits in the socket."""
        if socket in self._readers:
            self._readers[socket].look_soon()

    def watch(self, monitor: zmq.Socket[bytes], handle: Callable[[list[zmq.Frame]], None]) -> None:
        """Read all that a monitor says."""
        self._readers[monitor] = Reader(monitor, handle)

    def push(self, key: Link, event: Event) -> None:
        """Add what has happened to a queue."""
        queue = self._queues.setdefault(key, deque())
        queue.append(event)
        if len(queue) == 1:
            self._turns.append(key)
        self._something.set()

    def waiting(self, key: Link) -> int:
        """How many events of this key wait for `receive`."""
        return len(self._queues.get(key, ()))

    def read_rest(self, socket: zmq.Socket[bytes]) -> None:
        """Read all that is there of a socket that is about to be closed."""
        self._readers[socket].read_rest()

    def forget(self, socket: zmq.Socket[bytes], linger: float = 0) -> None:
        """Read a socket no more, and close it."""
        if socket in self._readers:
            self._readers.pop(socket).stop()
            self.gauge.forget(socket)
        socket.close(linger=int(linger * 1000))

    # -- links that are full or gone ---------------------------------------------------------------------------

    def _emptied(self) -> None:
        """Nothing waits in the ROUTER, or has not for long: links that are gone have nothing left to say."""
        for link in self._lost:
            self.push(self._router, Broken(link))
        self._lost.clear()

    def _retry_later(self) -> None:
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(self._pause, self._try_again)
            self._pause = min(2 * self._pause, _SELDOM)

    def _try_again(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        full, self._full = list(self._full), {}
        for link in full:
            self.push(self._router if isinstance(link, bytes) else link, Room(link))


def _buffers(parts: list[zmq.Frame]) -> Frames:
    return [part.buffer for part in parts]
