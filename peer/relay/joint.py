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

Passes = Callable[[int, int], Awaitable[None]]
"""Called with a way (0 for the one from the first socket) and bytes read on it, before they are written: may wait."""


async def join(first: socket.socket, second: socket.socket, passes: Passes | None = None) -> None:
    """Copy between two non-blocking sockets until both ends are closed, or one is and `LAST` is over; close both."""
    ways = [
        asyncio.create_task(_copy(way, *ends, passes)) for way, ends in enumerate(((first, second), (second, first)))
    ]
    try:
        _, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        if others:
            await asyncio.wait(others, timeout=LAST)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        first.close()
        second.close()


async def _copy(way: int, source: socket.socket, target: socket.socket, passes: Passes | None) -> None:
    loop, buffer, takes = asyncio.get_running_loop(), memoryview(bytearray(PIECE)), True
    with contextlib.suppress(OSError):  # a reset ends the way as a close does
        while read := await loop.sock_recv_into(source, buffer):
            if passes is not None:
                await passes(way, read)
            # What the target does not take is read all the same: unread bytes would make the system reset what the
            # other way still carries.
            if takes:
                try:
                    await loop.sock_sendall(target, buffer[:read])
                except OSError:
                    takes = False
            await asyncio.sleep(0)  # ready sockets alone would never let the event loop do anything else
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
