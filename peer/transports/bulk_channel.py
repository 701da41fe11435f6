"""The second connection of a link: plain TCP, on which buffers travel as encrypted records.

`bulk` has the whole protocol. Here is its half on TCP: how both ends prove the keys that went over CURVE
(`BulkConnector`), and how the buffers of announced messages come and go afterwards (`BulkChannel`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpeer.exceptions import ProtocolError, not_bound
from dpeer.peer.core.limits import MOST_UNPROVED, PROVE_WITHIN
from dpeer.peer.transport import Identity, Link
from dpeer.peer.transports.aead_records import RECORD, TAG, Decryptor, Encryptor, new_key
from dpeer.peer.transports.dial_out import DialOut, set_up

TOKEN_BYTES = 16

_AGAIN = 1.0
"""Seconds after which connections are accepted again when that has failed (too many open files, for example)."""

_AT_ONCE = 8
"""Records that are read or written before others of the event loop have their turn."""


# -- how a connection comes about ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """A listener's offer of a connection, as it went over CURVE.

    Attributes:
        link: The link on which it was asked for.
        theirs: The other side's sending key.
        own: This side's sending key.
        token: Tells the listener for which link a connection is.
    """

    link: Link
    theirs: bytes = field(repr=False)
    own: bytes = field(default_factory=new_key, repr=False)
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES), repr=False)


class Proved(NamedTuple):
    """A connection both of whose ends have shown their key, by record 0."""

    connection: socket.socket
    encryptor: Encryptor
    decryptor: Decryptor


class BulkConnector:
    """Accepts and makes connections. One that does not prove the key of an offer is closed.

    Args:
        use: Called with a link and its connection; returns whether it is wanted still.
        dial_out: Makes the connections.
        give_up: Seconds after which an accepted connection breaks whose other end confirms nothing.

    Attributes:
        port: Where connections are accepted; None if nowhere.
        offers: The last offer to each, until it is taken.
        unproved: Connections that have not shown a key yet, the oldest first.
    """

    def __init__(self, use: Callable[[Link, Proved], bool], dial_out: DialOut, give_up: float) -> None:
        self.port: int | None = None
        self.offers: dict[Identity, Offer] = {}
        self._use, self._dial_out, self._give_up = use, dial_out, give_up
        self._loop = asyncio.get_running_loop()
        self._server: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.unproved: dict[asyncio.Task[None], None] = {}

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
            raise not_bound(
                f"bulk = {port}: this port of {host} cannot be used ({os.strerror(error.errno or 0)}): stop what "
                "listens there or choose another port",
                error,
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
        if len(self.unproved) >= MOST_UNPROVED:
            oldest = next(iter(self.unproved))
            del self.unproved[oldest]
            oldest.cancel()
        task = self._begin(self._admit(connection))
        self.unproved[task] = None
        task.add_done_callback(lambda done: self.unproved.pop(done, None))

    def _accept_again(self) -> None:
        if self._server is not None:
            self._loop.add_reader(self._server, self._accept)

    async def _admit(self, connection: socket.socket) -> None:
        """Read a token and the record 0 that goes with it, and answer with this side's."""
        used = False
        try:
            set_up(connection, self._give_up)
            async with asyncio.timeout(PROVE_WITHIN):
                token = await self._receive(connection, TOKEN_BYTES)
                identity, offer = self._offered(token)
                encryptor, decryptor = Encryptor(offer.own), Decryptor(offer.theirs)
                _check(decryptor, await self._receive(connection, TOKEN_BYTES + TAG), token)
                if self.offers.pop(identity, None) is not offer:
                    return
                await self._loop.sock_sendall(connection, _record_0(encryptor, token))
            used = self._use(offer.link, Proved(connection, encryptor, decryptor))
        except (OSError, TimeoutError, ProtocolError):
            pass  # a stranger, or a neighbor that is gone
        finally:
            if not used:
                connection.close()

    def _offered(self, token: bytes) -> tuple[Identity, Offer]:
        for identity, offer in self.offers.items():
            if secrets.compare_digest(offer.token, token):
                return identity, offer
        raise ProtocolError("stranger", "no offer has this token")

    def connect(self, host: str, port: int, offer: Offer, failed: Callable[[str], None]) -> None:
        """Connect to where a listener has offered it; if that fails, `failed` is called with the reason."""
        self._begin(self._connect(host, port, offer, failed))

    async def _connect(self, host: str, port: int, offer: Offer, failed: Callable[[str], None]) -> None:
        connection, used = None, False
        try:
            connection = await self._dial_out.connect(host, port)
            encryptor, decryptor = Encryptor(offer.own), Decryptor(offer.theirs)
            async with asyncio.timeout(PROVE_WITHIN):
                await self._loop.sock_sendall(connection, offer.token + _record_0(encryptor, offer.token))
                _check(decryptor, await self._receive(connection, TOKEN_BYTES + TAG), offer.token)
            used = self._use(offer.link, Proved(connection, encryptor, decryptor))
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


def _record_0(encryptor: Encryptor, token: bytes) -> bytes:
    """The first record of a connection; it holds the token."""
    record = bytearray(TOKEN_BYTES + TAG)
    encryptor.encrypt(memoryview(token), memoryview(record))
    return bytes(record)


def _check(decryptor: Decryptor, record: bytes, token: bytes) -> None:
    """Raise unless this is the other side's record 0 with the token."""
    found = bytearray(TOKEN_BYTES)
    decryptor.decrypt(memoryview(record), memoryview(found))
    if not secrets.compare_digest(found, token):
        raise ProtocolError("malformed", "this is another one's introduction")


# -- how buffers come and go -----------------------------------------------------------------------------------------


class Incoming:
    """Buffers that are on their way.

    Args:
        lengths: Bytes of each.

    Attributes:
        buffers: Those that have begun to come; memory is taken no earlier.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.buffers: list[memoryview] = []
        self._lengths = deque(lengths)
        self._rest = memoryview(b"")  # of the last buffer

    @property
    def complete(self) -> bool:
        """Whether all buffers are here."""
        return not (self._rest or any(self._lengths))

    def next(self) -> memoryview:
        """The memory for the content of the next record; not if all is complete."""
        while not self._rest:
            self._rest = np.empty(self._lengths.popleft(), np.uint8).data
            self.buffers.append(self._rest)
        return self._rest[:RECORD]

    def took(self, nbytes: int) -> None:
        """Note that these bytes are there."""
        self._rest = self._rest[nbytes:]
        if self.complete:
            self.buffers += [memoryview(b"") for _ in self._lengths]  # nothing is sent of these
            self._lengths.clear()


class BulkChannel:
    """Sends and receives records on a connected, non-blocking socket.

    Only buffers that were announced on the channel's link (`expect`) are read.

    Args:
        proved: The socket, which is closed with the channel, and the keys.
        arrived: Called when the buffers that were expected first have come.
        drained: Called when another message can be sent.
        ended: Called once when the connection has ended: with the reason if something that was sent or expected is
            lost by that, else with None.

    Attributes:
        connection: The socket.
        closed: Whether it is closed.
    """

    def __init__(
        self,
        proved: Proved,
        arrived: Callable[[], None],
        drained: Callable[[], None],
        ended: Callable[[str | None], None],
    ) -> None:
        self.connection, self._encryptor, self._decryptor = proved
        self._arrived, self._drained, self._ended = arrived, drained, ended
        self._loop = asyncio.get_running_loop()
        self._sending: deque[memoryview] = deque()
        self._encrypted = memoryview(bytearray(RECORD + TAG))
        self._unsent = self._encrypted[:0]
        self._writing = False
        self._expected: deque[Incoming] = deque()
        self._record = memoryview(bytearray(RECORD + TAG))
        self._read = 0
        self._reading = False
        self._paused = self._leaving = self._last = False
        self.closed = False
        self._set_reading(on=True)

    @property
    def busy(self) -> bool:
        """Whether something is still to be written."""
        return bool(self._sending or self._unsent)

    def send(self, buffers: Sequence[memoryview]) -> None:
        """Send buffers that were announced to the other side, without waiting. They must not change."""
        self._sending.extend(buffer for buffer in buffers if buffer.nbytes)
        self._write()

    def _write(self) -> None:
        try:
            for _ in range(_AT_ONCE):
                if not self._unsent:
                    if not self._sending:
                        break
                    self._encrypt()
                self._unsent = self._unsent[self.connection.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(f"its connection for bodies is broken: {error.strerror}")
            return
        if self.busy and not self._writing:
            self._writing = True
            self._loop.add_writer(self.connection, self._write)
        elif not self.busy and self._writing:
            self._writing = False
            self._loop.remove_writer(self.connection)
            self._drained()
            if self._last:
                self._end(None)

    def _encrypt(self) -> None:
        buffer = self._sending.popleft()
        if buffer.nbytes > RECORD:
            self._sending.appendleft(buffer[RECORD:])
        self._unsent = self._encrypted[: min(buffer.nbytes, RECORD) + TAG]
        self._encryptor.encrypt(buffer[:RECORD], self._unsent)

    def expect(self, incoming: Incoming) -> None:
        """Read these buffers after those that are expected already."""
        self._expected.append(incoming)
        self._set_reading(on=not self._paused)

    def set_paused(self, paused: bool) -> None:
        """Read nothing for now, or read again."""
        if paused != self._paused and not self.closed:
            self._paused = paused
            self._set_reading(on=not paused)

    def _set_reading(self, *, on: bool) -> None:
        if on != self._reading and not self._leaving:
            self._reading = on
            if on:
                self._loop.add_reader(self.connection, self._readable)
            else:
                self._loop.remove_reader(self.connection)

    def _readable(self) -> None:
        try:
            for _ in range(_AT_ONCE):
                if self._leaving:
                    if not self.connection.recv_into(self._record):
                        self._end(None)
                elif not self._expected:
                    self._look_for_the_end()
                    return
                elif not self._read_on():
                    return
                if self._paused or self.closed:
                    return
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(f"its connection for bodies is broken: {error.strerror}")
        except ProtocolError as error:
            self._end(str(error))

    def _read_on(self) -> bool:
        """Read some of the next record; returns whether more may follow."""
        incoming = self._expected[0]
        data = incoming.next()
        length = data.nbytes + TAG
        read = self.connection.recv_into(self._record[self._read : length])
        if not read:
            self._end("its connection for bodies has ended before a body")
            return False
        self._read += read
        if self._read == length:
            self._read = 0
            self._decryptor.decrypt(self._record[:length], data)
            incoming.took(data.nbytes)
            if incoming.complete:
                self._expected.popleft()
                self._arrived()
        return True

    def _look_for_the_end(self) -> None:
        """Nothing is expected: see whether the other side has closed the connection; its bytes stay unread."""
        if self.connection.recv(1, socket.MSG_PEEK):
            self._set_reading(on=False)  # it is announced in a moment
        elif self.busy:
            self._set_reading(on=False)
            self._last = True  # the other side is leaving, and reads on for a while
        else:
            self._end(None)

    def finish(self) -> None:
        """Send nothing more, and drop all bytes until the other side has closed the connection."""
        self._set_reading(on=True)
        self._leaving = True
        with contextlib.suppress(OSError):  # it is broken, which reading shows, too
            self.connection.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection; unsent and unread bytes are lost."""
        if not self.closed:
            self.closed = True
            if self._reading:
                self._loop.remove_reader(self.connection)
            if self._writing:
                self._loop.remove_writer(self.connection)
            self.connection.close()
            self._sending.clear()
            self._expected.clear()

    def _end(self, lost: str | None) -> None:
        if not self.closed:
            self.close()
            self._ended(lost)
