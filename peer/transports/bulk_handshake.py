"""How the second connection of a link comes about: two that trust each other over CURVE find each other over TCP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from dpeer.exceptions import AddressError, ProtocolError
from dpeer.peer.core.limits import KEEPALIVE_IDLE, MOST_UNPROVED, PROVE_WITHIN
from dpeer.peer.transports.aead_records import SEAL, Opening, Sealing, new_key
from dpeer.peer.transports.base import Link
from dpeer.peer.transports.keys import Identity

TOKEN_BYTES = 16

_AGAIN = 1.0
"""Seconds after which connections are accepted again when that has failed: too many files are open, say."""


@dataclass(frozen=True)
class Offer:
    """What a listener has told over CURVE.

    Attributes:
        link: The link on which it was asked.
        theirs: The key for what the other side sends.
        own: The key for what this side sends.
        token: By what the listener knows for which link a connection is.
    """

    link: Link
    theirs: bytes = field(repr=False)
    own: bytes = field(default_factory=new_key, repr=False)
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES), repr=False)


@dataclass(frozen=True)
class Met:
    """A connection both of whose ends have shown that they have their key."""

    connection: socket.socket
    sealing: Sealing
    opening: Opening


class Meeting:
    """Accepts and makes connections. Whoever cannot prove that it was told a key is turned away.

    Args:
        use: Called with a link and its connection; returns whether it is wanted still.
        give_up: Seconds after which a connection breaks whose other end confirms nothing.

    Attributes:
        port: Where connections are accepted; None if nowhere.
        offers: What was offered last to whom, until somebody takes it.
    """

    def __init__(self, use: Callable[[Link, Met], bool], give_up: float) -> None:
        self.port: int | None = None
        self.offers: dict[Identity, Offer] = {}
        self._use, self._give_up = use, give_up
        self._loop = asyncio.get_running_loop()
        self._server: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unproved: deque[asyncio.Task[None]] = deque()

    def listen(self, host: str, port: int) -> None:
        """Accept connections at the host's port, 0 for a free one.

        Raises:
            AddressError: the port cannot be had; names it.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        both = host == "::" and socket.has_dualstack_ipv6()  # as libzmq does
        try:
            self._server = socket.create_server((host, port), family=family, dualstack_ipv6=both)
        except OSError as error:
            raise AddressError(
                f"bulk = {port}: this port of {host} cannot be used ({os.strerror(error.errno or 0)}): stop what "
                "listens there or choose another port"
            ) from error
        self._server.setblocking(False)
        self.port = self._server.getsockname()[1]
        self._loop.add_reader(self._server, self._accept)

    def close(self) -> None:
        """Accept and make no connections any more."""
        if self._server is not None:
            self._loop.remove_reader(self._server)
            self._server.close()
            self._server = self.port = None
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        if self._server is None:
            return
        try:
            connection, _ = self._server.accept()
        except BlockingIOError:
            return
        except OSError:
            self._loop.remove_reader(self._server)
            self._loop.call_later(_AGAIN, self._accept_again)
            return
        if len(self._unproved) >= MOST_UNPROVED:
            self._unproved.popleft().cancel()
        task = self._begin(self._admit(connection))
        self._unproved.append(task)
        task.add_done_callback(self._proved)

    def _accept_again(self) -> None:
        if self._server is not None:
            self._loop.add_reader(self._server, self._accept)

    def _proved(self, task: asyncio.Task[None]) -> None:
        with contextlib.suppress(ValueError):  # it was displaced
            self._unproved.remove(task)

    async def _admit(self, connection: socket.socket) -> None:
        """Find out what a connection is for."""
        used = False
        try:
            _set_up(connection, self._give_up)
            async with asyncio.timeout(PROVE_WITHIN):
                token = await self._receive(connection, TOKEN_BYTES)
                identity, offer = self._offered(token)
                sealing, opening = Sealing(offer.own), Opening(offer.theirs)
                _check(opening, await self._receive(connection, TOKEN_BYTES + SEAL), token)
                if self.offers.pop(identity, None) is not offer:
                    return
                await self._loop.sock_sendall(connection, _introduction(sealing, token))
            used = self._use(offer.link, Met(connection, sealing, opening))
        except (OSError, TimeoutError, ProtocolError):
            pass  # a stranger, or somebody who is gone
        finally:
            if not used:
                connection.close()

    def _offered(self, token: bytes) -> tuple[Identity, Offer]:
        for identity, offer in self.offers.items():
            if secrets.compare_digest(offer.token, token):
                return identity, offer
        raise ProtocolError("stranger", "nobody was offered this")

    def connect(self, host: str, port: int, offer: Offer, failed: Callable[[str], None]) -> None:
        """Connect to where a listener has said. If that does not succeed, `failed` is called with the reason."""
        self._begin(self._connect(host, port, offer, failed))

    async def _connect(self, host: str, port: int, offer: Offer, failed: Callable[[str], None]) -> None:
        connection, used = None, False
        try:
            connection = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            _set_up(connection, self._give_up)
            sealing, opening = Sealing(offer.own), Opening(offer.theirs)
            async with asyncio.timeout(PROVE_WITHIN):
                await self._loop.sock_connect(connection, (host, port))
                await self._loop.sock_sendall(connection, offer.token + _introduction(sealing, offer.token))
                _check(opening, await self._receive(connection, TOKEN_BYTES + SEAL), offer.token)
            used = self._use(offer.link, Met(connection, sealing, opening))
        except (OSError, TimeoutError, ProtocolError) as error:
            failed(f"port {port} of {host} cannot be used: {error or 'nothing answers'}")
        finally:
            if connection is not None and not used:
                connection.close()

    async def _receive(self, connection: socket.socket, length: int) -> bytes:
        """Exactly so many bytes."""
        found = b""
        while len(found) < length:
            some = await self._loop.sock_recv(connection, length - len(found))
            if not some:
                raise ProtocolError("malformed", "the connection has ended")
            found += some
        return found

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _set_up(connection: socket.socket, give_up: float) -> None:
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A firewall on the way must not forget a connection that is idle while everybody trains (libzmq's has heartbeats).
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS before Python 3.13
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_IDLE)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # not on macOS
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(give_up * 1000))


def _introduction(sealing: Sealing, token: bytes) -> bytes:
    """Record 0, which holds the token."""
    record = bytearray(TOKEN_BYTES + SEAL)
    sealing.seal(memoryview(token), memoryview(record))
    return bytes(record)


def _check(opening: Opening, record: bytes, token: bytes) -> None:
    """Raise unless this is the other's record 0 with the token."""
    found = bytearray(TOKEN_BYTES)
    opening.open(memoryview(record), memoryview(found))
    if not secrets.compare_digest(found, token):
        raise ProtocolError("malformed", "this is another one's introduction")
