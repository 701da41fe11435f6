"""ZeroMQ over tcp:// and ipc://: a ROUTER that listens, a DEALER for each dialled address.

DEALERs are anonymous: the ROUTER names each connection itself, so nobody can take over another's name; who speaks is
settled by the handshake above. A reconnect is a new link for the listener and an `Arrival` without frames for the
dialler.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable

import zmq
from zmq.utils.monitor import parse_monitor_message

from dpeer.exceptions import AddressError
from dpeer.peer.transports.base import Arrival, Link
from dpeer.peer.transports.reader import Reader
from dpeer.peer.wire import Frames, Limits

_PIECE = 2**22
"""Smaller frames cost more calls (1 MiB: rounds of 20 % more), larger ones say less often that a neighbor is there."""

_ADVICE = {
    zmq.EADDRINUSE: "is in use: stop what listens there or choose another port",
    errno.EADDRNOTAVAIL: "is not one of this host's: start this rank on the host that has it; if others reach this "
    "host by it all the same, through a router, say with `bind` where to listen here, such as tcp://0.0.0.0:7700",
}

_UNREAD = 8
"""How many messages may wait for `receive`, and in each connection's queue, before its sender has to wait."""


class ZeroMQTransport:
    """A `Transport` over sockets.

    Args:
        limits: The longest frames. libzmq drops a connection on which a longer one is announced, before it takes memory
            for it. (How many frames a message has is known only when it is complete: until connections are
            authenticated, anybody who reaches the port can make libzmq hold a message of many frames.)
    """

    piece_bytes = _PIECE

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._context = zmq.Context()
        self._router: zmq.Socket[bytes] | None = None
        self._dealers: list[zmq.Socket[bytes]] = []
        self._monitors: list[zmq.Socket[bytes]] = []
        self._readers: dict[zmq.Socket[bytes], Reader] = {}
        self._arrivals: deque[Arrival] = deque()
        self._something = asyncio.Event()
        self._up: set[Link] = set()

    async def listen(self, address: str) -> str:
        """Bind a ROUTER. Port 0 takes a free port."""
        self._router = self._socket(zmq.ROUTER, address)
        # Without this a message to a link that is gone would vanish silently.
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            self._router.bind(address)
        except zmq.ZMQError as error:
            advice = _ADVICE.get(error.errno or 0, f"cannot be bound: {error.strerror}")
            raise AddressError(f"address {address!r} {advice}") from error
        self._read(self._router, lambda parts: self._arrived(Arrival(parts[0].bytes, _buffers(parts[1:]))))
        bound: str = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        return bound

    def dial(self, address: str) -> Link:
        """Connect a DEALER; libzmq redials by itself."""
        dealer = self._socket(zmq.DEALER, address)
        dealer.setsockopt(zmq.RECONNECT_IVL, 100)
        dealer.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        monitor = dealer.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self._dealers.append(dealer)
        self._monitors.append(monitor)
        link: Link = len(self._dealers) - 1
        try:
            dealer.connect(address)
        except zmq.ZMQError as error:
            raise AddressError(
                f"address {address!r} cannot be dialled: {error.strerror}; expected tcp://HOST:PORT or ipc:///PATH"
            ) from error
        self._read(monitor, lambda parts: self._happened(link, parts))
        self._read(dealer, lambda parts: self._arrived(Arrival(link, _buffers(parts))))
        return link

    def send(self, link: Link, frames: Frames) -> bool:
        """Queue a message on the link's socket; libzmq's I/O thread sends it, large frames without a copy."""
        if isinstance(link, bytes):
            socket, parts = self._router, [link, *frames]
        else:
            # What a broken connection would queue is re-sent after the next handshake, by those who know what is still
            # needed. (ZMQ_IMMEDIATE would do this, but drops what has arrived and was not read when a peer leaves.)
            if link not in self._up:
                return False
            assert isinstance(link, int)
            socket, parts = self._dealers[link], list(frames)
        if socket is None or socket.closed:
            return False
        try:
            socket.send_multipart(parts, zmq.NOBLOCK, copy=False)
        except zmq.ZMQError:
            return False
        finally:
            self._readers[socket].look_soon()
        return True

    async def receive(self) -> Arrival:
        """The next arrival of any link."""
        while not self._arrivals:
            self._something.clear()
            await self._something.wait()
        arrival = self._arrivals.popleft()
        if len(self._arrivals) == _UNREAD - 1:
            for reader in self._readers.values():
                reader.look_soon()
        return arrival

    async def close(self, linger: float) -> None:
        """Stop receiving, flush for at most `linger` seconds, close every socket; again does nothing."""
        if self._context.closed:
            return
        for reader in self._readers.values():
            reader.stop()
        sockets = [*self._dealers, *([self._router] if self._router is not None else [])]
        for dealer, monitor in zip(self._dealers, self._monitors, strict=True):
            dealer.disable_monitor()
            monitor.close(linger=0)
        for socket in sockets:
            socket.close(linger=int(linger * 1000))
        # term() waits for the flush; the event loop (other peers of this process, say) must not.
        await asyncio.to_thread(self._context.term)

    def _socket(self, kind: int, address: str) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        socket.setsockopt(zmq.IPV6, "[" in address)
        socket.setsockopt(
            zmq.MAXMSGSIZE, max(self._limits.header_bytes, min(self.piece_bytes, self._limits.payload_bytes))
        )
        socket.setsockopt(zmq.LINGER, 0)
        # A sender never has more than two bodies and a few small messages under way, in frames that are not copied, and
        # none of them may be dropped. A receiver that does not keep up makes TCP, and so the sender, wait.
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, _UNREAD)
        # Dead hosts are noticed by the transport too (a pulled cable leaves the TCP connection open for hours).
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
        return socket

    def _read(self, socket: zmq.Socket[bytes], handle: Callable[[list[zmq.Frame]], None]) -> None:
        self._readers[socket] = Reader(socket, handle, lambda: len(self._arrivals) < _UNREAD)

    def _arrived(self, arrival: Arrival) -> None:
        self._arrivals.append(arrival)
        self._something.set()

    def _happened(self, link: Link, parts: list[zmq.Frame]) -> None:
        event = parse_monitor_message([part.bytes for part in parts])["event"]
        if event == zmq.EVENT_DISCONNECTED:
            self._up.discard(link)
        else:
            self._up.add(link)
            self._arrived(Arrival(link, None))


def _buffers(parts: list[zmq.Frame]) -> Frames:
    return [part.buffer for part in parts]
