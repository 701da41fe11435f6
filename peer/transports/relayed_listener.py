"""Relayed listener: a peer that no host can dial stays connected to a relay, and takes the calls of others there."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable

from dpeer.exceptions import ProtocolError
from dpeer.peer.relay.messages import ANSWER_CALL, LISTEN, NEWS_BYTES, PING, REPLACED, SILENT, Call, news
from dpeer.peer.transports.proxies import receive
from dpeer.peer.transports.tunnels import LOOPBACK, RelayRefusedError, Tunnels

_AGAIN, _SELDOM = 0.2, 10.0
"""Seconds after which a relay is tried again, at first and at most, where it has just failed."""

LOOK = 1.0
"""Seconds between two looks whether this host has slept."""

_REST = 0.005
"""Seconds after each message of the relay in which none is read: a hostile one must not keep the event loop busy."""


def slept() -> float:
    """Seconds for which this host has been suspended since it was started; a constant where no clock shows it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # Linux
    return 0.0 if clock is None else time.clock_gettime(clock) - time.monotonic()


class RelayedListener:
    """Stays at a relay until it is closed, and passes each call on to a port of loopback.

    Args:
        tunnels: Of the transport.
        address: The relay's.
        port: Where the transport listens on loopback.
        most: Calls that may be connected at once; an honest relay has one connection of each caller.
        report: Called with the reason while the relay cannot be used, and with None when it can again.
    """

    def __init__(
        self, tunnels: Tunnels, address: str, port: int, most: int, report: Callable[[str | None], None]
    ) -> None:
        self._tunnels, self._address, self._port, self._most, self._report = tunnels, address, port, most, report
        self._loop = asyncio.get_running_loop()
        self._troubled = False
        self._taken: set[asyncio.Task[None]] = set()
        self._staying = self._loop.create_task(self._stay())

    async def close(self) -> None:
        """Take no more calls."""
        for task in (self._staying, *self._taken):
            task.cancel()
        await asyncio.gather(self._staying, *self._taken, return_exceptions=True)

    async def _stay(self) -> None:
        pause = _AGAIN
        while True:
            try:
                before = slept()
                connection = await self._tunnels.claim(self._address, LISTEN)
                self._state(None)
                pause = _AGAIN
                watching = self._loop.create_task(self._end_after_sleep(connection, before))
                try:
                    await self._listen(connection)
                finally:
                    watching.cancel()
                    connection.close()
            except OSError as error:
                self._state(str(error))
                if isinstance(error, RelayRefusedError):
                    pause = _SELDOM
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SELDOM)

    async def _end_after_sleep(self, connection: socket.socket, before: float) -> None:
        """End the connection once this host has slept: the relay has given it up, and its word of that was lost.

        `before` is what `slept` gave when the connection was asked for.

        The system would find out within half a minute, in which no neighbor can call this peer.
        """
        while slept() - before < LOOK:  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(LOOK)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _state(self, reason: str | None) -> None:
        if reason is not None or self._troubled:
            self._report(reason)
        self._troubled = reason is not None

    async def _listen(self, connection: socket.socket) -> None:
        """Read what the relay sends, until the connection ends.

        Raises:
            OSError: it has ended; the text states how.
        """
        name = self._address.partition("://")[2]
        while True:
            try:
                async with asyncio.timeout(SILENT):
                    found = news(await receive(connection, NEWS_BYTES))
                    if found == PING:
                        await self._loop.sock_sendall(connection, PING)
            except TimeoutError as error:
                raise OSError(f"relay {name}: it is silent") from error
            except ProtocolError as error:
                raise OSError(f"relay {name}: {error.args[0].partition(': ')[2]}") from error
            except OSError as error:
                raise OSError(f"relay {name}: {error.strerror or error}") from error
            if found == REPLACED:
                raise RelayRefusedError(name, REPLACED)
            if isinstance(found, Call) and len(self._taken) < self._most:
                task = self._loop.create_task(self._take(found))
                self._taken.add(task)
                task.add_done_callback(self._taken.discard)
            await asyncio.sleep(_REST)

    async def _take(self, call: Call) -> None:
        """Take a call, and stay until it ends: the caller tries again if this fails."""
        with contextlib.suppress(OSError):
            remote = await self._tunnels.claim(self._address, ANSWER_CALL, call.ticket)
            local = socket.socket()
            try:
                local.setblocking(False)
                local.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(local, (LOOPBACK, self._port))
            except BaseException:
                local.close()
                remote.close()
                raise
            await self._tunnels.join(local, remote)
