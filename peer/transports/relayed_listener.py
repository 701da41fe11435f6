"""Relayed listener: a peer that no host can dial stays connected to a relay, and takes the calls of others there."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable

from dpeer.peer.relay.messages import ANSWER_CALL, CALL, LISTEN, NEWS_BYTES, PING, REFUSALS, REPLACED, SILENT, News
from dpeer.peer.transports.hosts import LOOPBACK, receive
from dpeer.peer.transports.tunnels import RelayRefusedError, Tunnels, of_relay

_AGAIN, _SELDOM = 0.2, 10.0
"""Seconds after which a relay is tried again, at first and at most, where it has just failed."""

_REST = 0.005
"""Seconds after each message of the relay in which none is read: a hostile one must not keep the event loop busy."""


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
                with contextlib.closing(await self._tunnels.claim(self._address, LISTEN)) as connection:
                    self._state(None)
                    pause = _AGAIN
                    with of_relay(self._address):
                        await self._listen(connection)
            except OSError as error:
                self._state(str(error))
                if isinstance(error, RelayRefusedError):
                    pause = _SELDOM
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SELDOM)

    def _state(self, reason: str | None) -> None:
        if reason is not None or self._troubled:
            self._report(reason)
        self._troubled = reason is not None

    async def _listen(self, connection: socket.socket) -> None:
        """Read what the relay sends, until the connection ends with an error."""
        while True:
            async with asyncio.timeout(SILENT):
                news = News.decode(await receive(connection, NEWS_BYTES))
                if news.kind == PING:
                    await self._loop.sock_sendall(connection, PING)
            if news.kind == REPLACED:
                raise RelayRefusedError(REFUSALS[REPLACED])
            if news.kind == CALL and len(self._taken) < self._most:
                task = self._loop.create_task(self._take(news.ticket))
                self._taken.add(task)
                task.add_done_callback(self._taken.discard)
            await asyncio.sleep(_REST)

    async def _take(self, ticket: bytes) -> None:
        """Take a call, and stay until it ends: the caller tries again if this fails."""
        with contextlib.suppress(OSError):
            remote = await self._tunnels.claim(self._address, ANSWER_CALL, ticket)
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
