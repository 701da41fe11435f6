"""Bodies that pass through a peer's transport at a given rate, as `under_gossip.py` needs them."""

from __future__ import annotations

import asyncio
import time

from dpeer.peer import Limits, ZeroMQTransport
from dpeer.peer.core import wire
from dpeer.peer.core.chunking import chunked
from dpeer.peer.transport import Arrival, Link, Sent


def chunks(nbytes: int) -> list[wire.Frames]:
    """The messages of a body of so many bytes, as a peer sends them."""
    body = wire.body(bytes(16), 0, 0, [bytearray(nbytes)])
    return list(chunked(wire.encode(body), ZeroMQTransport.chunk_bytes))


class Neighborhood:
    """Reads what comes as a peer does, message by message, and sends at a rate when asked to.

    Args:
        transport: Listens; the neighbors dial and say anything.
        neighbors: How many they are.
        nbytes: Of a body.
    """

    def __init__(self, transport: ZeroMQTransport, neighbors: int, nbytes: int) -> None:
        self.got = 0
        self._transport, self._neighbors = transport, neighbors
        self._limits = Limits(payload_bytes=nbytes)
        self._messages = chunks(nbytes)
        self._links: dict[Link, list[wire.Chunk]] = {}
        self._everybody = asyncio.Event()
        self._reading = asyncio.create_task(self._read())
        self._sending: asyncio.Task[None] | None = None

    async def met(self) -> None:
        """Wait for a message of each neighbor."""
        await asyncio.wait_for(self._everybody.wait(), 60)

    def send_at(self, rate: float) -> None:
        """Send that many bytes a second to each neighbor, until `quiet`."""
        self._sending = asyncio.create_task(self._send(rate))

    def quiet(self) -> None:
        """Send no more."""
        if self._sending is not None:
            self._sending.cancel()

    async def _read(self) -> None:
        while True:
            event = await self._transport.receive()
            if not isinstance(event, Arrival):
                continue
            link, frames = event.link, event.frames
            if link not in self._links:
                self._links[link] = []
                if len(self._links) == self._neighbors:
                    self._everybody.set()
                continue
            self.got += wire.size(frames)
            message = wire.decode(frames, self._limits)
            if isinstance(message, wire.Chunk):
                self._links[link].append(message)  # a body stays until the next one begins
            else:
                self._links[link] = []

    async def _send(self, rate: float) -> None:
        due = time.perf_counter()
        while True:
            for message in self._messages:
                for link in self._links:
                    await asyncio.sleep(max(0.0, due - time.perf_counter()))
                    while (sent := self._transport.send(link, message)) is Sent.FULL:  # noqa: ASYNC110
                        await asyncio.sleep(0.001)
                    if sent is Sent.GONE:
                        raise RuntimeError("a neighbor has gone")
                    due += wire.size(message) / rate / self._neighbors
