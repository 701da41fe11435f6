"""Joint of two connected sockets: copies bytes both ways, with one small buffer a way."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable

PIECE = 2**16
"""Bytes of a way's buffer, which is all that is held of it: while they cannot be written, nothing is read."""

LAST = 30.0
"""Seconds that the other way still has once one has ended: a closing peer's last words travel on a slow line."""

Pace = Callable[[int], Awaitable[None]]
"""Called with bytes that were read, before they are written: may wait."""


class Joint:
    """Two sockets that are joined, and closed together.

    Args:
        first, second: Non-blocking and connected.
        paces: Limit the bytes from the first to the second, and back; None for no limit.

    Attributes:
        copied: Bytes from the first to the second, and back.
    """

    def __init__(self, first: socket.socket, second: socket.socket, paces: tuple[Pace, Pace] | None = None) -> None:
        self.copied = [0, 0]
        self._sockets, self._paces = (first, second), paces
        self._loop = asyncio.get_running_loop()
        self._moved = self._loop.time()
        self._writing: list[float | None] = [None, None]
        self._ways: list[asyncio.Task[None]] = []
        self._ended = False

    def stalled(self, now: float) -> float:
        """Seconds for which nothing has come, or for which one end has taken nothing that was to be written."""
        return max(now - since for since in (self._moved, *self._writing) if since is not None)

    async def run(self) -> None:
        """Copy until both ends are closed, or one is and `LAST` is over; then close both."""
        try:
            if not self._ended:
                self._ways = [asyncio.create_task(self._copy(way)) for way in (0, 1)]
                _, others = await asyncio.wait(self._ways, return_when=asyncio.FIRST_COMPLETED)
                if others:
                    await asyncio.wait(others, timeout=LAST)
        finally:
            self.end()
            await asyncio.gather(*self._ways, return_exceptions=True)
            for one in self._sockets:
                one.close()

    def end(self) -> None:
        """Close both sockets soon; bytes on the way are lost."""
        self._ended = True
        for way in self._ways:
            way.cancel()

    async def _copy(self, way: int) -> None:
        source, target = self._sockets[way], self._sockets[1 - way]
        buffer, takes = memoryview(bytearray(PIECE)), True
        with contextlib.suppress(OSError):  # a reset ends the way as a close does
            while read := await self._loop.sock_recv_into(source, buffer):
                self._moved = self._loop.time()
                if self._paces is not None:
                    await self._paces[way](read)
                if takes:
                    takes = await self._write(way, target, buffer[:read])
                # Else it is read on: unread bytes would make the system reset what the other way still carries.
                self.copied[way] += read
                await asyncio.sleep(0)  # ready sockets alone would never let the event loop do anything else
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    async def _write(self, way: int, target: socket.socket, piece: memoryview) -> bool:
        """Write a piece; returns whether the target takes more."""
        self._writing[way] = self._loop.time()
        try:
            await self._loop.sock_sendall(target, piece)
        except OSError:
            return False
        finally:
            self._writing[way] = None
        self._moved = self._loop.time()
        return True
