"""A relay, and clients of it that do what a test says."""

import asyncio
import contextlib

import pytest

from dpeer.peer.relay.messages import DIAL, GREETING_BYTES, LISTEN, TAKEN, WAITING, prove
from dpeer.peer.transports.curve import new_secret, public_of
from tests.peer.intermediaries import Running, listed


@pytest.fixture(autouse=True)
async def in_time():
    async with asyncio.timeout(60):
        yield


class Client:
    """A connection to a relay, by hand."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.greeting = None

    async def greet(self):
        self.greeting = await self.reader.readexactly(GREETING_BYTES)
        return self.greeting

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self):
        """The relay's byte; empty if it closed."""
        return await self.reader.read(1)

    async def claim(self, secret, purpose, other=bytes(32)):
        greeting = self.greeting or await self.greet()
        await self.send(prove(secret, greeting, purpose, other).encode())
        return await self.answer()

    async def called(self):
        """The relay's byte that ends the waiting; empty if it closed."""
        while (found := await self.answer()) == WAITING:
            pass
        return found

    async def ended(self):
        """Wait until the other end closes; returns what came before."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read()
        return b""

    def close(self):
        self.writer.close()


class World:
    """A relay with listed keys, and their secrets.

    Attributes:
        secrets: By rank.
        keys: By rank.
    """

    def __init__(self, running, secrets):
        self.running, self.secrets, self.keys = running, secrets, [public_of(one) for one in secrets]
        self.relay, self.log = running.relay, running.log
        self._clients = []

    async def connect(self):
        client = Client(*await asyncio.open_connection("127.0.0.1", self.running.port))
        self._clients.append(client)
        return client

    async def listen(self, rank):
        """A connection on which the rank is called."""
        client = await self.connect()
        assert await client.claim(self.secrets[rank], LISTEN) == WAITING
        await self.log.until(f"rank {rank} ", "is here")
        return client

    async def dial(self, rank, other):
        """A connection that calls another rank, before the answer has come."""
        client = await self.connect()
        await client.greet()
        await client.send(prove(self.secrets[rank], client.greeting, DIAL, self.keys[other]).encode())
        return client

    async def join(self, rank, other, line):
        """Both ends of a joint: `line` is where `other` waits, and its end of it from now on."""
        near = await self.dial(rank, other)
        assert await line.called() == TAKEN
        assert await near.answer() == TAKEN
        return near, line

    def close(self):
        for client in self._clients:
            client.close()


@pytest.fixture
async def world():
    """Make a relay for so many ranks."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(size=3, **limits):
            secrets = [new_secret() for _ in range(size)]
            keys = listed({rank: (public_of(secret),) for rank, secret in enumerate(secrets)})
            made = World(await stack.enter_async_context(Running(keys, **limits)), secrets)
            stack.callback(made.close)
            return made

        yield make
