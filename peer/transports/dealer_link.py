"""A dialled link over ZeroMQ: a DEALER after the other, as long as the link is wanted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from dpeer.exceptions import AddressError
from dpeer.peer.transports.base import Arrival, Broken, Link, Opened, Unreachable
from dpeer.peer.transports.keys import Identity
from dpeer.peer.transports.memory_guard import GAUGED
from dpeer.peer.transports.monitors import monitored
from dpeer.peer.transports.resolving import endpoint, is_literal, resolve, split

if TYPE_CHECKING:
    from dpeer.peer.transports.zeromq import ZeroMQTransport

_FLUSHED = 0.05
"""Seconds between libzmq's word that a connection is broken and the reading of the last message that came on it: the
word comes a moment before the message."""

_AGAIN = 0.1
_SELDOM = 5.0
"""Seconds after which is tried again, at first and at most, to connect where that has just failed."""

_FAILED = {
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "it does not take the key of this peer: see that its federation file lists "
    "the key that belongs to this peer's secret, and that it was started again since",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "what listens there does not prove the key that is listed for it: see that "
    "the federation file has its address and its key, and that it uses keys",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "what listens there is no dpeer that uses keys: see that the federation file "
    "has its address, and that it was started with that file",
}
"""What may be wrong, by what libzmq says of a handshake in which one side could not prove its key."""

_WATCHED = sum(_FAILED) | GAUGED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED

_NEXT = 1.0
"""The same at most where a name stands for several addresses, of which the next one is tried."""


class Line:
    """Connects, notices that the connection breaks, and connects again.

    As long as nobody listens, libzmq tries again by itself; of a name that stands for several addresses the next one is
    tried, because often only one of them is right.

    Args:
        transport: Makes sockets and takes what happens.
        link: What this link is called there.
        address: Where to connect to.
        identity: Who has to be there; with keys nothing is said to anybody else.

    Attributes:
        up: Whether the connection is established.
        socket: The present DEALER; None while there is none.

    Raises:
        AddressError: this is no address.
    """

    def __init__(self, transport: ZeroMQTransport, link: Link, address: str, identity: Identity | None) -> None:
        self.up = False
        self.socket: zmq.Socket[bytes] | None = None
        self._transport, self._link, self._address = transport, link, address
        self._identity = identity
        self._keys = () if transport.keyring is None or identity is None else transport.keyring.listed[identity]
        self._failed = self._which = 0
        self._place = split(address)
        self._at = address
        self._monitor: zmq.Socket[bytes] | None = None
        self._loop = asyncio.get_running_loop()
        self._resolving: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._pause = _AGAIN
        self._several = False

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
        try:
            found = await resolve(host, port)
            self._several = len(found) > 1
            failures = self._transport.failures
            failures[self._address] += 1  # until it has succeeded
            self._open(found[(failures[self._address] - 1) % len(found)])
        except OSError as error:
            self._fail(f"its name {host!r} cannot be resolved ({error.strerror or error})")
        except AddressError as error:
            self._fail(str(error))

    def _fail(self, reason: str) -> None:
        self._transport.push(self._link, Unreachable(self._link, reason))
        self._try_again(_SELDOM)

    def _open(self, address: str) -> None:
        transport, link = self._transport, self._link
        self._at = address
        dealer: zmq.Socket[bytes] | None = None
        try:
            dealer = transport.socket(zmq.DEALER, address)
            monitor = monitored(dealer, _WATCHED)
        except zmq.ZMQError as error:  # too many open files, say
            if dealer is not None:
                dealer.close(linger=0)
            self._fail(f"no socket can be opened: {error.strerror}")
            return
        if transport.keyring is not None:
            dealer.curve_secretkey, dealer.curve_publickey = transport.keyring.secret, transport.keyring.public
            dealer.curve_serverkey = self._keys[self._which % len(self._keys)]
        dealer.setsockopt(zmq.RECONNECT_IVL, 100)
        dealer.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
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
        if self.socket is not None:
            self._transport.gauge.came(self.socket, self._link, parts)
        arrival = Arrival(self._link, [part.buffer for part in parts], self._identity)
        if self._transport.bulk is None:
            self._transport.push(self._link, arrival)
        else:
            self._transport.bulk.came(self._link, arrival, self.end)

    def _happened(self, parts: list[zmq.Frame]) -> None:
        if self.socket is not None:
            self._transport.gauge.happened(self.socket, parts)
        event = zmq.Event(parse_monitor_message([part.bytes for part in parts])["event"])
        if self._later is not None:
            return
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED and not self.up:
            self.up, self._failed = True, 0
            self._transport.failures[self._address] -= 1
            self._transport.push(self._link, Opened(self._link))
            place = split(self._at)
            if self._transport.bulk is not None and place is not None:
                self._transport.bulk.ask(self._link, place[0], self.end)
        elif event in _FAILED and self._keys:
            self._unproved(_FAILED[event])
        elif event == zmq.EVENT_DISCONNECTED:
            self._broken()
        elif event == zmq.EVENT_CONNECT_RETRIED and self._several and not self.up:
            self._close(0)
            self._try_again(_NEXT)

    def end(self) -> None:
        """Break the connection; a moment later a new one is made."""
        if self.up:
            self._broken()

    def _broken(self) -> None:
        self.up = False
        self._later = self._loop.call_later(_FLUSHED, self._part)

    def _unproved(self, reason: str) -> None:
        """One side could not prove its key. While a peer changes its key, two are listed: try them in turn."""
        self._failed += 1
        self._which += 1
        self._close(0)
        if self._failed >= len(self._keys):
            self._fail(reason)
        else:
            self._try_again(_SELDOM)

    def _part(self) -> None:
        """The connection is broken: read what is left, say so, and connect anew."""
        assert self.socket is not None, "closed only by `close`, which cancels this"
        self._transport.read_rest(self.socket)
        if self._transport.bulk is not None:
            self._transport.bulk.forget(self._link)
        self._close(0)
        self._transport.push(self._link, Broken(self._link))
        self._try_again(_SELDOM)

    def _try_again(self, seldom: float) -> None:
        self._later = self._loop.call_later(self._pause, self._again)
        self._pause = min(2 * self._pause, seldom)

    def _again(self) -> None:
        self._later = None
        try:
            self.connect()
        except AddressError as error:
            self._fail(str(error))

    def _close(self, linger: float) -> None:
        self.up = False
        if self.socket is None or self._monitor is None:
            return
        self.socket.disable_monitor()
        self._transport.forget(self._monitor)
        self._transport.forget(self.socket, linger)
        self.socket = self._monitor = None
