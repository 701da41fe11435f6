"""Links between peers in user space: TCP proxies with delay, bandwidth, one-way and two-way cuts, and resets."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from dataclasses import dataclass

CHUNK = 2**14

_UNDER_WAY = 2**20
"""Bytes of one direction that are on their way at most: then its sender has to wait, as TCP's does."""


@dataclass
class Way:
    """One direction of a line.

    Attributes:
        seconds: The delay.
        bytes_per_second: The bandwidth, which all connections of the line share.
        free_at: Time at which the bytes before have passed.
    """

    seconds: float = 0.0
    bytes_per_second: float = math.inf
    free_at: float = 0.0

    def __post_init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def cut(self) -> None:
        """Nothing arrives from now on; what comes waits, as TCP sends it again."""
        self._open.clear()

    def mend(self) -> None:
        """What waits arrives."""
        self._open.set()

    async def arrival(self, count: int) -> float:
        """The time at which so many bytes arrive that are sent now."""
        self.free_at = max(time.monotonic(), self.free_at) + count / self.bytes_per_second
        return self.free_at + self.seconds

    async def passes(self, at: float) -> None:
        """Wait until this time, and while the way is cut."""
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        await self._open.wait()


class Line:
    """A proxy before a listener on this host.

    Args:
        port: The listener's.
        seconds: The delay of each direction.
        bytes_per_second: The bandwidth of each direction.

    Attributes:
        there, back: To the listener, and from it.
        port: Where the line is dialled.
    """

    def __init__(self, port: int, seconds: float = 0.0, bytes_per_second: float = math.inf) -> None:
        self._target = port
        self.there, self.back = Way(seconds, bytes_per_second), Way(seconds, bytes_per_second)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def listen(self) -> int:
        """Accept connections; returns the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def cut(self) -> None:
        """Nothing arrives in either direction."""
        self.there.cut()
        self.back.cut()

    def mend(self) -> None:
        """What waits arrives in both directions."""
        self.there.mend()
        self.back.mend()

    def reset(self) -> None:
        """End all connections, and lose what has not arrived."""
        for writer in [*self._writers]:
            writer.transport.abort()

    async def close(self) -> None:
        """End the proxy."""
        self._server.close()
        self.reset()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.there.passes(time.monotonic() + self.there.seconds)  # a connection takes a way there, too
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=CHUNK)
        except OSError:  # the listener has ended
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        for way, source, target in ((self.there, reader, far_writer), (self.back, far_reader, writer)):
            task = asyncio.create_task(self._pass(way, source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, way: Way, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY // CHUNK)
        writing = asyncio.create_task(self._write(way, under_way, target))
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(CHUNK):
                    await under_way.put((await way.arrival(len(data)), data))
            await under_way.put((time.monotonic() + way.seconds, b""))
            await writing
        finally:
            writing.cancel()
            self._writers.discard(target)
            target.transport.abort() if writing.cancelled() else target.close()

    async def _write(
        self, way: Way, under_way: asyncio.Queue[tuple[float, bytes]], target: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while True:
                at, data = await under_way.get()
                await way.passes(at)
                if not data:
                    return
                target.write(data)
                await target.drain()
        while True:  # the receiver has ended: what comes is lost
            at, data = await under_way.get()
            if not data:
                return
