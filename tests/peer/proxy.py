"""A TCP proxy: a network that can be slow, hold everything up, or swallow it without a word."""

import asyncio
import contextlib

CHUNK = 8192


class Way:
    """One direction of a proxy.

    Attributes:
        rate: Bytes a second; None for as fast as it goes.
        slower: After how many bytes which rate holds.
        passed: How many bytes have come through.
        open: Not set while everything is held up.
    """

    def __init__(self):
        self.rate, self.slower, self.passed = None, None, 0
        self.open = asyncio.Event()
        self.open.set()

    async def wait(self, nbytes):
        await self.open.wait()
        self.passed += nbytes
        if self.slower is not None and self.passed >= self.slower[0]:
            self.rate, self.slower = self.slower[1], None
        if self.rate is not None:
            await asyncio.sleep(nbytes / self.rate)


class Proxy:
    """Passes on what it gets between those who dial it and a listener.

    Attributes:
        there, back: The ways to the listener, and from it.
        connections: How many there have been.
    """

    def __init__(self, target):
        self.host, _, port = target.removeprefix("tcp://").rpartition(":")
        self.port = int(port)
        self.there, self.back = Way(), Way()
        self.connections = 0
        self._swallowed = {self.there: 0, self.back: 0}
        self._tasks = set()
        self._writers = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK)
        self.address = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def swallow(self, *ways):
        """What the connections that there are say this way is lost from now on, and so is their end."""
        for way in ways:
            self._swallowed[way] = self.connections

    def cut(self):
        """End all connections, and lose what has not passed."""
        for writer in self._writers:
            writer.transport.abort()

    def changed(self, way, data):
        """What is passed on instead of this."""
        return data

    async def _accept(self, reader, writer):
        self.connections += 1
        number = self.connections
        far_reader, far_writer = await asyncio.open_connection(self.host, self.port, limit=CHUNK)
        self._writers |= {writer, far_writer}
        for way, source, target in ((self.there, reader, far_writer), (self.back, far_reader, writer)):
            task = asyncio.create_task(self._pass(way, number, source, target))
            self._tasks.add(task)

    async def _pass(self, way, number, source, target):
        with contextlib.suppress(ConnectionError):
            while data := await source.read(CHUNK):
                await way.wait(len(data))
                if number > self._swallowed[way]:
                    target.write(self.changed(way, data))
                    await target.drain()
        if number > self._swallowed[way]:
            target.close()


class Tap(Proxy):
    """A proxy that keeps what passes.

    Attributes:
        seen: All bytes that have passed each way.
        spoil: Which byte of what goes to the listener is changed; None for none.
    """

    def __init__(self, target):
        super().__init__(target)
        self.seen, self.spoil = {self.there: bytearray(), self.back: bytearray()}, None

    def changed(self, way, data):
        before = len(self.seen[way])
        self.seen[way] += data
        if way is self.there and self.spoil is not None and before <= self.spoil < before + len(data):
            data = bytearray(data)
            data[self.spoil - before] ^= 1
            self.spoil = None
        return bytes(data)
