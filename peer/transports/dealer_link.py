"""A dialled link over ZeroMQ: one DEALER after the other, as long as the link is wanted."""

from __future__ import annotations

import asyncio

import zmq

from dpeer.exceptions import AddressError
from dpeer.peer.transport import Arrival, Broken, Endless, Identity, Link, Opened, Unreachable
from dpeer.peer.transports.connection_guard import EVENTS, ConnectionGuard
from dpeer.peer.transports.curve import Keyring
from dpeer.peer.transports.hosts import endpoint, is_literal, resolve, split
from dpeer.peer.transports.sockets import Parts, Reader, Sockets
from dpeer.peer.transports.tunnels import Tunnels

_FLUSHED = 0.05
"""Seconds between libzmq's event that a connection is broken and the reading of the last message that came on it: the
event comes a moment before the message."""

_AGAIN = 0.1
_SELDOM = 5.0
"""Seconds after which is tried again, at first and at most, to connect where that has just failed."""

_NEXT = 1.0
"""The same at most for a name, which is resolved anew: it may stand for several addresses, of which the next one is
tried, or for another one by now."""

_FAILED = {
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "it does not take the key of this peer: see that its federation file lists "
    "the key that belongs to this peer's secret, and that it was started again since",
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "the listener there does not prove the key that is listed for it: see that "
    "the federation file has its address and its key, and that it uses keys",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "the listener there runs no dpeer with keys: see that the federation file "
    "has its address, and that it was started with that file",
}
"""The likely fault, by the event of a handshake in which one side could not prove its key."""

_ENDED = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
"""The event of a connection that ends within its handshake. A listener with another key ends each one; a single one
says no more than that the listener, or the way to it, has just gone."""

_WATCHED = sum(_FAILED) | EVENTS | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_CONNECT_RETRIED


class DealerLink:
    """Connects, notices that the connection breaks, and connects again.

    Without a listener libzmq tries again by itself, but of a name only the address that it knows. So a name is resolved
    anew each time, and of several addresses the next one is tried, because often only one of them is right. Behind a
    relay or a proxy libzmq is given a tunnel in place of the address, a new one each time.

    Args:
        longest: Bytes of an honest message's frames, at most.
        identity: Whose key the listener has to prove.

    Attributes:
        reader: Reads the present DEALER; None between two.

    Raises:
        AddressError: this is no address.
    """

    def __init__(
        self,
        sockets: Sockets,
        link: Link,
        address: str,
        longest: int,
        keyring: Keyring | None,
        identity: Identity | None,
        tunnels: Tunnels,
    ) -> None:
        self.up = False
        self.reader: Reader | None = None
        self._sockets, self._link, self._address, self._longest = sockets, link, address, longest
        self._keyring, self._identity = keyring, identity
        self._tunnels, self._tunnelled = tunnels, tunnels.needed(address)
        self._keys = () if keyring is None or identity is None else keyring.listed[identity]
        self._unproved = self._which = self._next = 0
        self._place = split(address)
        self._monitor: Reader | None = None
        self._guard: ConnectionGuard | None = None
        self._loop = asyncio.get_running_loop()
        self._finding: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._pause = _AGAIN
        self._anew = self._tunnelled or (self._place is not None and not is_literal(self._place[0]))

    def connect(self) -> None:
        """Begin to connect; a name is resolved first, or a tunnel made."""
        if self._anew:
            self._finding = asyncio.create_task(self._find())
        else:
            self._open(self._address if self._place is None else endpoint(*self._place))

    def relist(self, keyring: Keyring) -> None:
        """The keys are these from now on: a listener that has proved another one has to prove one of them."""
        self._keyring = keyring
        before, self._keys = self._key, () if self._identity is None else keyring.listed[self._identity]
        if before in self._keys:
            self._which = self._keys.index(before)
        elif self.reader is not None:
            if self.up:
                self._sockets.push(self._link, Broken(self._link))
            self._close(0)
            if self._later is None:
                self._try_again(_SELDOM)

    def close(self, linger: float = 0) -> None:
        """Close the socket and try no more; flush for at most `linger` seconds."""
        if self._later is not None:
            self._later.cancel()
        if self._finding is not None:
            self._finding.cancel()
        self._close(linger)

    async def _find(self) -> None:
        assert self._place is not None, "see `_anew`"
        try:
            if self._tunnelled:
                self._open(await self._tunnels.open(self._address, self._key))
            else:
                found = await resolve(*self._place)
                self._next += 1  # until it has succeeded
                self._open(endpoint(found[(self._next - 1) % len(found)], self._place[1]))
        except (OSError, AddressError) as error:
            self._which += self._tunnelled  # a relay knows the peer by one of its keys
            self._fail(str(error))

    @property
    def _key(self) -> bytes | None:
        """The key that the listener has to prove. While it changes, two are listed: they are tried in turn."""
        return self._keys[self._which % len(self._keys)] if self._keys else None

    def _fail(self, reason: str, *, unproved: bool = False) -> None:
        self._sockets.push(self._link, Unreachable(self._link, reason, unproved))
        self._try_again(_SELDOM)

    def _open(self, address: str) -> None:
        dealer: zmq.Socket[bytes] | None = None
        try:
            dealer = self._sockets.open(zmq.DEALER, address)
            monitor = self._sockets.monitor(dealer, _WATCHED, self._happened)
        except zmq.ZMQError as error:  # too many open files, for example
            if dealer is not None:
                dealer.close(linger=0)
            self._fail(f"no socket can be opened: {error.strerror}")
            return
        if self._keyring is not None:
            dealer.curve_secretkey, dealer.curve_publickey = self._keyring.secret, self._keyring.public
            dealer.curve_serverkey = self._key
        dealer.setsockopt(zmq.RECONNECT_IVL, 100)
        dealer.setsockopt(zmq.RECONNECT_IVL_MAX, 2000)
        self._monitor = monitor
        self._guard = ConnectionGuard(self._longest, self._on_endless, keys=False)
        self.reader = self._sockets.read(self._link, dealer, self._came)
        try:
            dealer.connect(address)
        except zmq.ZMQError as error:
            self._close(0)
            raise AddressError(
                f"address {self._address!r} cannot be dialled: {error.strerror}; expected tcp://HOST:PORT or "
                "ipc:///PATH"
            ) from error

    def _came(self, parts: Parts) -> None:
        self._pause = _AGAIN
        if self._guard is not None:
            self._guard.came(parts[-1], self._link)
        self._sockets.push(self._link, Arrival(self._link, [part.buffer for part in parts], self._identity))

    def _on_endless(self, link: Link | None, place: str) -> None:
        self._sockets.push(self._link, Endless(self._link, place))

    def _happened(self, event: zmq.Event, value: int) -> None:
        if self._guard is not None:
            self._guard.happened(event, value)
        if self._later is not None:
            return
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED and not self.up:
            self.up, self._unproved = True, 0
            self._next -= 1
            self._sockets.push(self._link, Opened(self._link))
        elif event in _FAILED and self._keys:
            self._refused(event)
        elif event == zmq.EVENT_DISCONNECTED:
            self.up = False
            self._later = self._loop.call_later(_FLUSHED, self._part)
        elif event == zmq.EVENT_CONNECT_RETRIED and self._anew and not self.up:
            self._close(0)
            self._try_again(_NEXT)

    def _refused(self, event: zmq.Event) -> None:
        """One side could not prove its key. While a peer changes its key, two are listed: try them in turn."""
        self._unproved += 1
        self._which += 1
        self._close(0)
        if self._unproved >= len(self._keys) * (2 if event == _ENDED else 1):
            self._fail(_FAILED[event], unproved=True)
        else:
            self._try_again(_SELDOM)

    def _part(self) -> None:
        """The connection is broken: read its last messages, report the break, and connect anew."""
        assert self.reader is not None, "closed only by `close`, which cancels this"
        self.reader.read_rest()
        self._close(0)
        self._sockets.push(self._link, Broken(self._link))
        self._try_again(_SELDOM)

    def _try_again(self, seldom: float) -> None:
        self._later = self._loop.call_later(self._pause, self._connect_again)
        self._pause = min(2 * self._pause, seldom)

    def _connect_again(self) -> None:
        self._later = None
        try:
            self.connect()
        except AddressError as error:
            self._fail(str(error))

    def _close(self, linger: float) -> None:
        self.up = False
        if self._guard is not None:
            self._guard.close()
            self._guard = None
        if self.reader is not None and self._monitor is not None:
            self.reader.socket.disable_monitor()
            self._monitor.close()
            self.reader.close(linger)
        self.reader = self._monitor = None
