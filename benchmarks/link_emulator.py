"""Links between peers in user space: TCP proxies with delay, bandwidth, one-way and two-way cuts, and resets."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import time
from dataclasses import dataclass, field

CHUNK = 2**14
"""Bytes that are read at once at most, unless a line is fast."""

_UNDER_WAY = 2**20
"""Bytes of one direction of a connection that are on their way at most: then its sender has to wait, as TCP's does."""

_RECEIVED = 2**18
"""Bytes that the kernel takes from a sender before they are sent, where ways are given: its own buffer is the queue."""

_QUEUE = 0.01
"""Seconds of bytes that wait before a pipe at most: then its connections take turns."""


@dataclass
class Pipe:
    """A bandwidth that ways share.

    Attributes:
        bytes_per_second: The bandwidth.
        free_at: Time at which the bytes before have passed.
    """

    bytes_per_second: float = math.inf
    free_at: float = 0.0

    async def turn(self) -> None:
        """Wait until the queue is short enough for more."""
        while (ahead := self.free_at - time.monotonic()) > _QUEUE:  # noqa: ASYNC110 - others may have taken the turn
            await asyncio.sleep(ahead - _QUEUE)

    def passed(self, count: int, since: float) -> float:
        """The time at which so many bytes have passed that came whole by `since`, from a pipe that is no faster."""
        self.free_at = max(since, self.free_at + count / self.bytes_per_second)
        return self.free_at

    def sent(self, count: int) -> float:
        """The time at which so many bytes have passed that are put in now."""
        self.free_at = max(time.monotonic(), self.free_at) + count / self.bytes_per_second
        return self.free_at


@dataclass
class Way:
    """One direction of a line.

    Attributes:
        seconds: The delay.
        uplink: The sender's bandwidth, which all connections of the line share, and other lines may.
        downlink: The receiver's.
        window: Bytes of a connection that are on their way at most.
    """

    seconds: float = 0.0
    uplink: Pipe = field(default_factory=Pipe)
    downlink: Pipe = field(default_factory=Pipe)
    window: int = _UNDER_WAY

    def __post_init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    @property
    def chunk(self) -> int:
        """Bytes that are read at once: 2 ms of a fast line, so that a process keeps up with it."""
        rate = min(self.uplink.bytes_per_second, self.downlink.bytes_per_second)
        return CHUNK if math.isinf(rate) else min(2**18, max(2**12, int(rate * 2e-3)))

    def cut(self) -> None:
        """Nothing arrives from now on; what comes waits, as TCP sends it again."""
        self._open.clear()

    def mend(self) -> None:
        """What waits arrives."""
        self._open.set()

    async def arrival(self, count: int) -> float:
        """The time at which so many bytes arrive at the downlink that are sent now."""
        await self.uplink.turn()
        return self.uplink.sent(count) + self.seconds

    async def passes(self, at: float, count: int = 0) -> None:
        """Wait until this time, until so many bytes are through the downlink, and while the way is cut."""
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        if not math.isinf(self.downlink.bytes_per_second):
            await asyncio.sleep(max(0.0, self.downlink.passed(count, at) - time.monotonic()))
        await self._open.wait()


class Line:
    """A proxy before a listener on this host.

    Args:
        port: The listener's.
        seconds: The delay of each direction.
        bytes_per_second: The bandwidth of each direction.
        ways: To the listener, and from it, in place of those of this delay and bandwidth.

    Attributes:
        there, back: To the listener, and from it.
        port: Where the line is dialled.
    """

    def __init__(
        self,
        port: int,
        seconds: float = 0.0,
        bytes_per_second: float = math.inf,
        ways: tuple[Way, Way] | None = None,
    ) -> None:
        self._target, self._shared = port, ways is not None
        self.there, self.back = ways or (Way(seconds, Pipe(bytes_per_second)), Way(seconds, Pipe(bytes_per_second)))
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def listen(self) -> int:
        """Accept connections; returns the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=self.there.chunk)
        self._bound(self._server.sockets[0])
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

    def _bound(self, one: socket.socket) -> None:
        if self._shared:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.there.passes(time.monotonic() + self.there.seconds)  # a connection takes a way there, too
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target, limit=self.back.chunk)
        except OSError:  # the listener has ended
            writer.transport.abort()
            return
        self._bound(far_writer.get_extra_info("socket"))
        self._writers |= {writer, far_writer}
        for way, source, target in ((self.there, reader, far_writer), (self.back, far_reader, writer)):
            task = asyncio.create_task(self._pass(way, source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, way: Way, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(max(1, way.window // way.chunk))
        writing = asyncio.create_task(self._write(way, under_way, target))
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(way.chunk):
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
                await way.passes(at, len(data))
                if not data:
                    return
                target.write(data)
                await target.drain()
        while True:  # the receiver has ended: what comes is lost
            at, data = await under_way.get()
            if not data:
                return


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Ports that no process listens at."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((host, 0))
        return [int(one.getsockname()[1]) for one in sockets]
