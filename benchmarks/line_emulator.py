"""Emulated lines in user space: TCP proxies on loopback with delay, bandwidth, cuts in one or both ways, and resets.

Connections of a line share its bandwidth evenly, nothing is lost, and no connection has to find its rate first: on real
lines a round's last bytes come later.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from emulated_lines import LOCAL, Loopback, Pipe, Shape, beside

CHUNK = 2**14
"""Bytes that are read at once at most, unless a line is fast."""

_UNDER_WAY = 2**20
"""Bytes of one direction of a connection that are on their way at most: then its sender has to wait, as TCP's does."""

_WINDOW = 2**22
"""The same where hosts have lines of their own: what Linux lets a sender have under way."""

_RECEIVED = 2**18
"""Bytes that the kernel takes from a sender before they are sent, where ways are given: its own buffer is the queue."""

_QUEUE = 0.01
"""Seconds of bytes that wait before a pipe at most: then its connections take turns."""


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
    uplink: Pipe = field(default_factory=lambda: Pipe(math.inf))
    downlink: Pipe = field(default_factory=lambda: Pipe(math.inf))
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
        """The time at which so many bytes arrive at the downlink that are sent now, once the queue is short enough."""
        while (ahead := self.uplink.free_at - time.monotonic()) > _QUEUE:  # noqa: ASYNC110 - others may take the turn
            await asyncio.sleep(ahead - _QUEUE)
        return self.uplink.sent(count, time.monotonic()) + self.seconds

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
        watch: Called with each piece that arrives, and its way.

    Attributes:
        there, back: To the listener, and from it.
        port: Where the line is dialled.
        dialled, ended: How many connections have come, and how many of those that reached the listener have ended.
    """

    def __init__(
        self,
        port: int,
        seconds: float = 0.0,
        bytes_per_second: float = math.inf,
        ways: tuple[Way, Way] | None = None,
        watch: Callable[[Way, bytes], None] = lambda way, data: None,
    ) -> None:
        self._target, self._shared, self._watch = port, ways is not None, watch
        self.there, self.back = ways or (Way(seconds, Pipe(bytes_per_second)), Way(seconds, Pipe(bytes_per_second)))
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = self.dialled = self.ended = 0

    async def listen(self) -> int:
        """Accept connections; returns the port."""
        self._server = await asyncio.start_server(self._accept, LOCAL, 0, limit=self.there.chunk)
        self._bound(self._server.sockets[0])
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    def cut(self) -> None:
        """Nothing arrives in either direction; new connections wait, too."""
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
        self.dialled += 1
        await self.there.passes(time.monotonic() + self.there.seconds)  # a connection takes a way there, too
        try:
            far_reader, far_writer = await asyncio.open_connection(LOCAL, self._target, limit=self.back.chunk)
        except OSError:  # the listener has ended
            writer.transport.abort()
            return
        self._bound(far_writer.get_extra_info("socket"))
        self._writers |= {writer, far_writer}
        ways = [
            asyncio.create_task(self._pass(way, source, target))
            for way, source, target in ((self.there, reader, far_writer), (self.back, far_reader, writer))
        ]
        for task in ways:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.wait(ways)
        self.ended += 1

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
                self._watch(way, data)
                target.write(data)
                await target.drain()
        while (await under_way.get())[1]:  # the receiver has ended: what comes is lost
            pass


def free_ports(count: int) -> list[int]:
    """Ports of loopback that no process listens at."""
    with held_ports(count) as ports:
        return ports


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Ports of loopback that no process listens at, and that nobody gets until the end of the block."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((LOCAL, 0))) for _ in range(count)]
        yield [int(one.getsockname()[1]) for one in sockets]


# -- a line for each host, as benchmarks have them ---------------------------------------------------------------------


@dataclass(frozen=True)
class ProxiedLines(Loopback):
    """The lines as a process sees them: all are on this host, and only where it dials makes the difference.

    Attributes:
        port: Where the proxies' process is asked for one.
    """

    port: int

    def reach(self, dialler: int, listener: int, port: int) -> tuple[str, int]:
        """A proxy before that port."""
        with socket.create_connection((LOCAL, self.port)) as asked, asked.makefile("rw") as lines:
            lines.write(json.dumps([dialler, listener, port]) + "\n")
            lines.flush()
            return LOCAL, int(lines.readline())


@contextmanager
def proxied(shapes: Sequence[Shape]) -> Iterator[ProxiedLines]:
    """Lines of these shapes, by a proxy for each pair of hosts and port: all of a host's share its up- and downlink."""
    with beside(_serve, shapes) as port:
        yield ProxiedLines(port)


def _serve(shapes: Sequence[Shape], port: Connection) -> None:
    asyncio.run(_proxies(shapes, port))


async def _proxies(shapes: Sequence[Shape], port: Connection) -> None:
    up, down = ([Pipe(shape.bytes_per_second) for shape in shapes] for _ in range(2))
    lines: dict[tuple[int, int, int], Line] = {}

    def way(sender: int, receiver: int) -> Way:
        delay = (shapes[sender].round_trip + shapes[receiver].round_trip) / 4  # each host's line has half of each way
        return Way(delay, up[sender], down[receiver], _WINDOW)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialler, listener, target = json.loads(await reader.readline())
        if (dialler, listener, target) not in lines:
            line = lines[dialler, listener, target] = Line(
                target, ways=(way(dialler, listener), way(listener, dialler))
            )
            await line.listen()
        writer.write(f"{lines[dialler, listener, target].port}\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, LOCAL, 0)
    port.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()
