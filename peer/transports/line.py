"""A dialled link over ZeroMQ: a DEALER after the other, as long as the link is wanted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from dpeer.exceptions import AddressError
from dpeer.peer.transports.base import Arrival, Broken, Link, Opened, Unreachable
from dpeer.peer.transports.resolving import endpoint, is_literal, resolve, split

if TYPE_CHECKING:
    from dpeer.peer.transports.zeromq import ZeroMQTransport

_FLUSHED = 0.05
"""Seconds between libzmq's word that a connection is broken and the reading of the last message that came on it: the
word comes a moment before the message."""

_AGAIN = 0.1
_SELDOM = 5.0
"""Seconds after which is tried again, at first and at most, to connect where that has just failed."""


class Line:
    """Connects, notices that the connection breaks, and connects again.

    As long as nobody listens, libzmq tries again by itself.

    Args:
        transport: Makes sockets and takes what happens.
        link: What this link is called there.
        address: Where to connect to.

    Attributes:
        up: Whether the connection is established.
        socket: The present DEALER; None while there is none.

    Raises:
        AddressError: this is no address.
    """

    def __init__(self, transport: ZeroMQTransport, link: Link, address: str) -> None:
        self.up = False
        self.socket: zmq.Socket[bytes] | None = None
        self._transport, self._link, self._address = transport, link, address
        self._place = split(address)
        self._monitor: zmq.Socket[bytes] | None = None
        self._loop = asyncio.get_running_loop()
        self._resolving: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._pause = _AGAIN
        self._attempt = 0

    def connect(self) -> None:
        """Begin to connect; a name is resolved first."""
        if self._place is None:
            self._open(self._address)
        elif is_literal(self._place[0]):
            self._open(endpoint(*self._place))
        else:
            self._resolving = asyncio.create_task(self._resolve(*self._place))

    def close(self, linger: float = 0) -> None:
        """Close the socket and try no more; flush for at most `linger` seconds."""
        if self._later is not None:
            self._later.cancel()
        if self._resolving is not None:
            self._resolving.cancel()
        self._close(linger)

    async def _resolve(self, host: str, port: int) -> None:
        while True:
            try:
                self._attempt += 1
                found = await resolve(host, port, self._attempt - 1)
            except OSError as error:
                reason = f"its name {host!r} cannot be resolved ({error.strerror or error})"
                self._transport.push(self._link, Unreachable(self._link, reason))
                await asyncio.sleep(self._pause)
                self._pause = min(2 * self._pause, _SELDOM)
            else:
                break
        self._open(found)

    def _open(self, address: str) -> None:
        transport, link = self._transport, self._link
        dealer = transport.socket(zmq.DEALER, address)
        dealer.setsockopt(zmq.RECONNECT_IVL, 100)
        dealer.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        monitor = dealer.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        self.socket, self._monitor = dealer, monitor
        transport.watch(monitor, self._happened)
        transport.read(link, dealer, self._came)
        try:
            dealer.connect(address)
        except zmq.ZMQError as error:
            self._close(0)
            raise AddressError(
                f"address {self._address!r} cannot be dialled: {error.strerror}; expected tcp://HOST:PORT or "
                "ipc:///PATH"
            ) from error

    def _came(self, parts: list[zmq.Frame]) -> None:
        self._pause = _AGAIN
        self._transport.push(self._link, Arrival(self._link, [part.buffer for part in parts]))

    def _happened(self, parts: list[zmq.Frame]) -> None:
        event = parse_monitor_message([part.bytes for part in parts])["event"]
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED and not self.up and self._later is None:
            self.up = True
            self._transport.push(self._link, Opened(self._link))
        elif event == zmq.EVENT_DISCONNECTED and self._later is None:
            self.up = False
            self._later = self._loop.call_later(_FLUSHED, self._part)

    def _part(self) -> None:
        """The connection is broken: read what is left, say so, and connect anew."""
        assert self.socket is not None, "closed only by `close`, which cancels this"
        self._transport.read_rest(self.socket)
        self._close(0)
        self._transport.push(self._link, Broken(self._link))
        self._later = self._loop.call_later(self._pause, self._again)
        self._pause = min(2 * self._pause, _SELDOM)

    def _again(self) -> None:
        self._later = None
        self.connect()

    def _close(self, linger: float) -> None:
        self.up = False
        if self.socket is None or self._monitor is None:
            return
        self.socket.disable_monitor()
        self._transport.forget(self._monitor)
        self._transport.forget(self.socket, linger)
        self.socket = self._monitor = None
