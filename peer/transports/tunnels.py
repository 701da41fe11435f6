"""Tunnels: loopback ports through which libzmq reaches an address that it cannot dial, behind a relay or a proxy.

libzmq knows no relay and no HTTP proxy. So the connection is made first, and libzmq then connects to a port of loopback
that is open for this one connection; a joint copies between both. The bytes are CURVE's, so neither relay nor proxy
reads or changes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from dpeer.exceptions import ProtocolError
from dpeer.peer.core.limits import PROVE_WITHIN
from dpeer.peer.relay.messages import (
    CALL_WITHIN,
    DIAL,
    GREETING_BYTES,
    LISTEN,
    NOBODY,
    REFUSALS,
    SILENT,
    TAKEN,
    WAITING,
    prove,
)
from dpeer.peer.transport import RELAY
from dpeer.peer.transports.hosts import LOOPBACK, endpoint, join, receive, split
from dpeer.peer.transports.proxies import Proxies, dial

_AGAIN, _REFUSED = 2.0, 10.0
"""Seconds after which a relay is tried again that has just failed, or refused this peer. One that fails and is back
without end causes a line of the log a second."""

_REST = 0.005
"""Seconds after each byte and each call of a relay in which none is taken: a hostile one must not keep the event loop
busy."""


class RelayRefusedError(OSError):
    """A relay refuses a connection."""


class Tunnels:
    """The tunnels of one transport.

    Args:
        give_up: Seconds after which a connection breaks whose other end confirms nothing.
        secret: The peer's secret key, which relays ask for; None without keys.
    """

    def __init__(self, through: Proxies, give_up: float, secret: bytes | None) -> None:
        self._through, self._give_up, self._secret = through, give_up, secret
        self._joints: set[asyncio.Task[None]] = set()
        self._staying: asyncio.Task[None] | None = None

    def needed(self, address: str) -> bool:
        """Whether an address is dialled through a relay or a proxy."""
        place = split(address)
        return place is not None and (address.startswith(RELAY) or self._through.of(place[0]) is not None)

    async def open(self, address: str, key: bytes | None) -> str:
        """Connect to the listener at an address; behind a relay, to the peer with this key.

        Returns:
            The port of loopback, as libzmq dials it. It is open for a few seconds, for one connection.

        Raises:
            OSError: its text states why none can be made.
        """
        if address.startswith(RELAY):
            assert key is not None, "a relay is dialled for a listed rank"
            remote = await self._claim(address, DIAL, key, PROVE_WITHIN + CALL_WITHIN)
        else:
            remote = await self._dial(address)
        server = socket.create_server((LOOPBACK, 0))
        server.setblocking(False)
        self._begin(remote, partial(_accepted, server))
        return endpoint(LOOPBACK, server.getsockname()[1])

    def stay(self, address: str, port: int, most: int, report: Callable[[str | None], None]) -> None:
        """Wait at a relay for callers until `close`, and join each to the transport.

        Args:
            address: The relay's.
            port: Where the transport listens on loopback.
            most: Calls that may be connected at once; an honest relay has one connection of each caller.
            report: Called with the reason while the relay cannot be used, and with None when it can again.
        """
        self._staying = asyncio.create_task(self._stay(address, port, most, report))

    async def _stay(self, address: str, port: int, most: int, report: Callable[[str | None], None]) -> None:
        troubled = False
        joints: set[asyncio.Task[None]] = set()

        def here() -> None:
            nonlocal troubled
            if troubled:
                report(None)
            troubled = False

        while True:
            try:
                remote = await self._claim(address, LISTEN, here=here)
            except OSError as error:
                report(str(error))
                troubled = True
                await asyncio.sleep(_REFUSED if isinstance(error, RelayRefusedError) else _AGAIN)
                continue
            joints.add(self._begin(remote, partial(_dialled, port)))
            await asyncio.sleep(_REST)
            while len(joints) >= most:
                _, joints = await asyncio.wait(joints, return_when=asyncio.FIRST_COMPLETED)

    async def _dial(self, address: str) -> socket.socket:
        place = split(address)
        assert place is not None, "see `needed`"
        return await dial(*place, self._through, self._give_up)

    async def _claim(
        self, address: str, purpose: bytes, other: bytes = NOBODY, within: float = PROVE_WITHIN,
        here: Callable[[], None] = lambda: None,
    ) -> socket.socket:  # fmt: skip
        """A connection that a relay has joined to another peer's.

        Raises:
            OSError: its text states why not.
        """
        assert self._secret is not None, "addresses are checked: relays need keys"
        with of_relay(address):
            connection, loop = await self._dial(address), asyncio.get_running_loop()
            try:
                async with asyncio.timeout(within) as limit:
                    claim = prove(self._secret, await receive(connection, GREETING_BYTES), purpose, other)
                    await loop.sock_sendall(connection, claim.encode())
                    while (answer := await receive(connection, 1)) == WAITING:
                        here()
                        limit.reschedule(loop.time() + SILENT)
                        await asyncio.sleep(_REST)
                if answer != TAKEN:
                    raise RelayRefusedError(REFUSALS.get(answer, "it refuses the connection"))
            except BaseException:
                connection.close()
                raise
            return connection

    def _begin(self, remote: socket.socket, local: Callable[[], Awaitable[socket.socket]]) -> asyncio.Task[None]:
        task = asyncio.create_task(_pass_on(remote, local))
        self._joints.add(task)
        task.add_done_callback(self._joints.discard)
        return task

    async def close(self, linger: float) -> None:
        """Copy what closed sockets have left behind, for at most `linger` seconds; then end every tunnel."""
        if self._staying is not None:
            self._staying.cancel()
        if self._joints and linger > 0:
            await asyncio.wait([*self._joints], timeout=linger)
        for task in [*self._joints]:
            task.cancel()
        await asyncio.gather(*self._joints, *filter(None, [self._staying]), return_exceptions=True)


@contextlib.contextmanager
def of_relay(address: str) -> Iterator[None]:
    """Have errors name the relay at this address, each an OSError whose text states what is wrong with it."""
    name = address.removeprefix(RELAY)
    try:
        yield
    except TimeoutError as error:
        raise OSError(f"relay {name}: it does not answer") from error
    except ProtocolError as error:
        raise OSError(f"relay {name}: {error.args[0].partition(': ')[2]}") from error
    except OSError as error:
        raise type(error)(f"relay {name}: {error.strerror or error}") from error


async def _pass_on(remote: socket.socket, local: Callable[[], Awaitable[socket.socket]]) -> None:
    """Join a connection to one of this host's, if that comes about; else its other end tries again."""
    try:
        async with asyncio.timeout(PROVE_WITHIN):
            near = await local()
    except OSError:  # TimeoutError, too
        remote.close()
    except BaseException:
        remote.close()
        raise
    else:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await join(near, remote)


async def _accepted(server: socket.socket) -> socket.socket:
    with server:
        near, _ = await asyncio.get_running_loop().sock_accept(server)
    return near


async def _dialled(port: int) -> socket.socket:
    near = socket.socket()
    near.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(near, (LOOPBACK, port))
    except BaseException:
        near.close()
        raise
    return near
