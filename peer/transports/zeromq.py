"""ZeroMQ over tcp://, ipc:// and relay://: a ROUTER that listens, a DEALER for each dialled address.

DEALERs are anonymous: the ROUTER names each connection itself, so no peer can take over another's name. The speaker is
settled by the key that it has proved, or, without keys, by the handshake above. A connection that breaks gets a new
DEALER: the old one would send messages queued for the old connection. Of a peer behind a relay the ROUTER listens on
loopback, and both ends dial out.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from dataclasses import replace

import zmq

from dpeer.exceptions import AddressError, not_bound
from dpeer.peer.core.limits import CHUNK, MOST_UNPROVED, Limits
from dpeer.peer.core.wire import Frames
from dpeer.peer.transport import RELAY, Arrival, Broken, Endless, Event, Identity, Link, Relayed, Sent, Writable
from dpeer.peer.transports.connection_guard import EVENTS, ConnectionGuard
from dpeer.peer.transports.curve import FAILED, CurveAuth, Keyring
from dpeer.peer.transports.dealer_link import DealerLink
from dpeer.peer.transports.hosts import LOOPBACK, endpoint, split
from dpeer.peer.transports.proxies import NO_PROXIES, Proxies
from dpeer.peer.transports.sockets import Parts, Reader, Sockets, send
from dpeer.peer.transports.tunnels import Tunnels

_ADVICE = {
    zmq.EADDRINUSE: "is in use: stop what listens there or choose another port",
    errno.EADDRNOTAVAIL: "is not one of this host's: start this rank on the host that has it; if others reach this "
    "host by it all the same, through a router, set `bind` to the address to listen at here, such as tcp://0.0.0.0:7700",
}

_CURVE_BYTES = 64
"""Bytes by which encryption makes a frame longer, at most."""

_LATE = 1.0
"""Seconds after which a link that is gone is given up although the ROUTER was never empty: a sender may flood it."""

_MORE = 3
"""Frames that a message may have beside its buffers: the name of its connection, its header, and one beyond the
most that are allowed."""

_ACCEPTED = "accepted"
"""The queue of what comes on links that were not dialled."""

_RETRY = 0.001
_SELDOM = 0.02
"""Seconds after which a full link is tried again, at first and at most: libzmq's signal that it can be written to can
get lost in other calls on the same socket."""


class ZeroMQTransport:
    """A `Transport` over sockets.

    Args:
        limits: The longest frames. A message that is longer than these allow, of however many frames, ends its
            connection before it is complete (`ConnectionGuard`; on Linux, and over tcp:// only).
        give_up: Seconds after which a connection breaks whose other end confirms nothing.
        keyring: The keys of the peers to let in, and to prove to those that are dialled; None for connections without
            encryption.

    Attributes:
        guard: Bounds the cost of the listener's connections; None without a listener.
    """

    chunk_bytes = CHUNK

    def __init__(
        self,
        limits: Limits,
        give_up: float = 15.0,
        keyring: Keyring | None = None,
        proxies: Proxies = NO_PROXIES,
    ) -> None:
        longest = max(limits.header_bytes, min(self.chunk_bytes, limits.payload_bytes))
        self.keyring = keyring
        self._longest_message = max(limits.header_bytes, limits.small_header_bytes + longest)
        self._sockets = Sockets(
            longest + (0 if keyring is None else _CURVE_BYTES), limits.buffers + _MORE, give_up, self._try_again
        )
        self._tunnels = Tunnels(proxies, give_up, None if keyring is None else keyring.secret)
        self._auth: CurveAuth | None = None
        self.guard: ConnectionGuard | None = None
        self._router: Reader | None = None
        self._monitor: Reader | None = None
        self._dealers: dict[Link, DealerLink] = {}
        self._dialled = 0
        self._full: dict[Link, None] = {}
        self._lost: dict[Link, None] = {}
        self._closed = False
        self._retry: asyncio.TimerHandle | None = None
        self._pause = _RETRY

    async def listen(self, address: str) -> str:
        """Bind a ROUTER; with a relay's address, on loopback. Port 0 takes a free port."""
        if not address.startswith(RELAY):
            return self._bind(address)
        if self.keyring is None:
            raise AddressError(f"address {address!r} needs keys: a relay joins those alone who prove a listed one")
        split(address)  # for its error
        bound = split(self._bind(endpoint(LOOPBACK, 0)))
        assert bound is not None, "a port of loopback"
        most = 2 * len(self.keyring.owners) + MOST_UNPROVED
        self._tunnels.stay(address, bound[1], most, lambda why: self._sockets.push(self, Relayed(why)))
        return address

    def _bind(self, address: str) -> str:
        router = self._sockets.open(zmq.ROUTER, address)
        # Without this a message to a link that is gone would vanish silently.
        router.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.guard = ConnectionGuard(self._longest_message, self._on_endless, keys=self.keyring is not None)
        if self.keyring is not None:
            self._auth = CurveAuth(self._sockets, router, self.keyring)
        self._monitor = self._sockets.monitor(router, EVENTS | (FAILED if self._auth else 0), self._happened)
        self._router = self._sockets.read(_ACCEPTED, router, self._came, self._emptied)
        try:
            router.bind(address)
        except zmq.ZMQError as error:
            advice = _ADVICE.get(error.errno or 0, f"cannot be bound: {error.strerror}")
            raise not_bound(f"address {address!r} {advice}", error) from error
        bound: str = router.getsockopt_string(zmq.LAST_ENDPOINT)
        return bound

    def _happened(self, event: zmq.Event, value: int) -> None:
        if self.guard is not None:
            self.guard.happened(event, value)
        if self._auth is not None and event & FAILED:
            self._auth.failed()

    def _came(self, parts: Parts) -> None:
        assert self.guard is not None, "it is there before the first message"
        link, frames = parts[0].bytes, [part.buffer for part in parts[1:]]
        identity = None if self._auth is None else self._auth.owner(str(parts[0]["User-Id"]))
        if self._auth is not None and identity is None:
            self.guard.end_sender(parts[-1])
            return
        self.guard.came(parts[-1], link, identity)
        self._sockets.push(_ACCEPTED, Arrival(link, frames, identity))

    def _on_endless(self, link: Link | None, place: str) -> None:
        self._sockets.push(_ACCEPTED, Endless(link, place))

    def dial(self, address: str, identity: Identity | None = None) -> Link:
        """Connect a DEALER."""
        if self.keyring is not None and identity not in self.keyring.listed:
            raise ValueError(f"identity {identity}: with keys, only ranks whose key is listed can be dialled")
        link: Link = self._dialled
        self._dialled += 1
        self._dealers[link] = DealerLink(
            self._sockets, link, address, self._longest_message, self.keyring, identity, self._tunnels
        )
        self._dealers[link].connect()
        return link

    def admit(self, keys: Mapping[Identity, tuple[str, ...]]) -> None:
        """Let in who has these keys. A connection by a key that is listed no more ends with its next message."""
        if self.keyring is None:
            return
        found = {rank: tuple(map(bytes.fromhex, some)) for rank, some in keys.items() if some}
        self.keyring = replace(self.keyring, listed={**self.keyring.listed, **found})
        if self._auth is not None:
            self._auth.relist(self.keyring)
        for dealer in self._dealers.values():
            dealer.relist(self.keyring)

    def drop(self, link: Link) -> None:
        """Close the link's DEALER, or the connection of a link that was accepted."""
        if isinstance(link, bytes) and self.guard is not None:
            self.guard.end(link)
        dealer = self._dealers.pop(link, None)
        if dealer is not None:
            dealer.close()
            self._sockets.forget(link)
            self._full.pop(link, None)

    def send(self, link: Link, frames: Frames) -> Sent:
        """Queue a message on the link's socket; libzmq's I/O thread sends it, large frames without a copy."""
        if isinstance(link, bytes):
            reader, parts = self._router, (link, *frames)
        else:
            dealer = self._dealers.get(link)
            if dealer is None:
                return Sent.GONE
            if not dealer.up:
                return Sent.FULL  # arrived messages are read first, then the core learns of the break
            reader, parts = dealer.reader, tuple(frames)
        if reader is None or reader.socket.closed:
            return Sent.GONE
        if link in self._lost:
            return Sent.FULL
        try:
            send(reader.socket, parts)
        except zmq.Again:
            self._full[link] = None
            self._retry_later()
            reader.look_soon()
            return Sent.FULL
        except zmq.ZMQError:
            reader.look_soon()
            if reader is not self._router:
                return Sent.GONE
            self._lost[link] = None  # messages from it may still be unread
            asyncio.get_running_loop().call_later(_LATE, self._emptied)
            return Sent.FULL
        reader.called()
        self._pause = _RETRY
        return Sent.TAKEN

    @property
    def proved(self) -> frozenset[Identity]:
        """The identities that have connected and proved their keys so far, also without a message since."""
        return frozenset() if self._auth is None else frozenset(self._auth.proved)

    async def receive(self) -> Event:
        """The next event; the sockets take turns."""
        return await self._sockets.receive()

    async def close(self, linger: float) -> None:
        """Stop receiving, flush for at most `linger` seconds, close every socket; again does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        for dealer in self._dealers.values():
            dealer.close(linger)
        if self.guard is not None:
            self.guard.close()
        if self._auth is not None:
            self._auth.stop()
        if self._router is not None and self._monitor is not None:
            self._router.socket.disable_monitor()
            self._monitor.close()
            self._router.close(linger)
        await self._sockets.terminate()
        await self._tunnels.close(linger)

    # -- links that are full or gone ---------------------------------------------------------------------------

    def _emptied(self) -> None:
        """Nothing waits in the ROUTER, or has not for long: links that are gone have no messages left."""
        for link in self._lost:
            self._sockets.push(_ACCEPTED, Broken(link))
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
            self._sockets.push(_ACCEPTED if isinstance(link, bytes) else link, Writable(link))
