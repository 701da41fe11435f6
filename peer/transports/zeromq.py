"""ZeroMQ over tcp:// (and whatever else libzmq speaks): a ROUTER that listens, a DEALER for each dialled address.

DEALERs are anonymous: the ROUTER names each connection itself, so nobody can take over another's name; who speaks is
settled by the handshake above. A reconnect is a new link for the listener and an `Arrival` without frames for the
dialler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from dpeer.exceptions import AddressError
from dpeer.peer.transports.base import Arrival, Link
from dpeer.peer.wire import Frames, Limits


class ZeroMQTransport:
    """A `Transport` over sockets.

    Args:
        limits: libzmq drops the connection of whoever announces a larger frame than any message has, before memory is
            taken for it. (How many frames a message has is only known when it is complete: until connections are
            authenticated, whoever reaches the port can make libzmq hold a long one.)
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._context = zmq.asyncio.Context()
        self._router: zmq.asyncio.Socket | None = None
        self._dealers: list[zmq.asyncio.Socket] = []
        self._monitors: list[zmq.asyncio.Socket] = []
        self._arrivals: asyncio.Queue[Arrival] = asyncio.Queue(maxsize=64)
        self._up: set[Link] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self, address: str) -> str:
        """Bind a ROUTER. Port 0 takes a free port."""
        self._router = self._socket(zmq.ROUTER, address)
        # Without this a message to a link that is gone would vanish silently.
        self._router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            self._router.bind(address)
        except zmq.ZMQError as error:
            advice = (
                "is in use: stop what listens there or choose another port"
                if error.errno == zmq.EADDRINUSE
                else (f"cannot be bound: {error.strerror}")
            )
            raise AddressError(f"address {address!r} {advice}") from error
        self._spawn(self._pump_router(self._router))
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
                f"address {address!r} cannot be dialled: {error.strerror}; expected tcp://HOST:PORT"
            ) from error
        self._spawn(self._pump_dealer(link, dealer))
        self._spawn(self._pump_monitor(link, monitor))
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
        # NOBLOCK makes zmq.asyncio settle the future before it returns; its outcome is read, never awaited.
        sent = cast(asyncio.Future[Any], socket.send_multipart(parts, flags=zmq.NOBLOCK, copy=False))
        return not sent.done() or sent.exception() is None

    async def receive(self) -> Arrival:
        """The next arrival of any link."""
        return await self._arrivals.get()

    async def close(self, linger: float) -> None:
        """Stop receiving, flush for at most `linger` seconds, close every socket; again does nothing."""
        if self._context.closed:
            return
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        sockets = [*self._dealers, *([self._router] if self._router is not None else [])]
        for dealer, monitor in zip(self._dealers, self._monitors, strict=True):
            dealer.disable_monitor()
            monitor.close(linger=0)
        for socket in sockets:
            socket.close(linger=int(linger * 1000))
        # term() waits for the flush; the event loop (other peers of this process, say) must not.
        await asyncio.to_thread(self._context.term)

    def _socket(self, kind: int, address: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.IPV6, "[" in address)
        socket.setsockopt(zmq.MAXMSGSIZE, max(self._limits.header_bytes, self._limits.payload_bytes))
        socket.setsockopt(zmq.LINGER, 0)
        # Neighbors never have more than two bodies and a few words under way.
        socket.setsockopt(zmq.RCVHWM, 8)
        # Dead hosts are noticed by the transport too (a pulled cable leaves the TCP connection open for hours).
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 30)
        return socket

    def _spawn(self, pump: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(pump))

    async def _pump_router(self, router: zmq.asyncio.Socket) -> None:
        while True:
            name, *frames = await self._receive_message(router)
            await self._arrivals.put(Arrival(bytes(name), frames))

    async def _pump_dealer(self, link: Link, dealer: zmq.asyncio.Socket) -> None:
        while True:
            await self._arrivals.put(Arrival(link, await self._receive_message(dealer)))

    async def _pump_monitor(self, link: Link, monitor: zmq.asyncio.Socket) -> None:
        while True:
            event = parse_monitor_message(await monitor.recv_multipart())["event"]
            if event == zmq.EVENT_DISCONNECTED:
                self._up.discard(link)
            else:
                self._up.add(link)
                await self._arrivals.put(Arrival(link, None))

    async def _receive_message(self, socket: zmq.asyncio.Socket) -> Frames:
        parts = await socket.recv_multipart(copy=False)
        return [part.buffer for part in parts]
