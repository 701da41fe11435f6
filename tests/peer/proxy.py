"""A TCP proxy: a network that can hold everything up, end connections, and record bytes."""

import asyncio
import contextlib

CHUNK = 8192


class Way:
    """One direction of a proxy: `open` is not set while everything is held up, `seen` has all bytes that passed."""

    def __init__(self):
        self.open, self.seen = asyncio.Event(), bytearray()
        self.open.set()


class Proxy:
    """Passes on what it gets between those who dial it and a listener.

    Attributes:
        there, back: The ways to the listener, and from it.
        cut_at: After which byte on the way to the listener all connections are ended, once; None for none.
    """

    def __init__(self, target):
        self.host, _, port = target.removeprefix("tcp://").rpartition(":")
        self.port = int(port)
        self.there, self.back, self.cut_at = Way(), Way(), None
        self._tasks, self._writers = set(), set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK)
        self.address = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self):
        """End all connections, and lose what has not passed."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader, writer):
        far_reader, far_writer = await asyncio.open_connection(self.host, self.port, limit=CHUNK)
        self._writers |= {writer, far_writer}
        for way, source, target in ((self.there, reader, far_writer), (self.back, far_reader, writer)):
            self._tasks.add(asyncio.create_task(self._pass(way, source, target)))

    async def _pass(self, way, source, target):
        with contextlib.suppress(ConnectionError):
            while data := await source.read(CHUNK):
                await way.open.wait()
                way.seen += data
                if way is self.there and self.cut_at is not None and len(way.seen) >= self.cut_at:
                    self.cut_at = None
                    self.cut()
                    return
                target.write(data)
                await target.drain()
        target.close()
