"""Transports over ZeroMQ that end with the test, and waits for their events."""

import asyncio

import pytest

from dpeer.peer.core.limits import CHUNK, Limits
from dpeer.peer.transport import Sent
from dpeer.peer.transports import ZeroMQTransport
from tests.peer.keys import keyrings

TCP = "tcp://127.0.0.1:0"
PAYLOAD = 2 * CHUNK
"""The most bytes of a payload."""


@pytest.fixture(autouse=True)
async def in_time():
    async with asyncio.timeout(100):
        yield


@pytest.fixture
async def opened():
    """Make transports, which end with the test."""
    made = []

    def make(keyring=None, payload_bytes=PAYLOAD):
        made.append(ZeroMQTransport(Limits(payload_bytes=payload_bytes), keyring=keyring))
        return made[-1]

    yield make
    for one in made:
        await one.close(0)


@pytest.fixture
async def keyed(opened):
    """A listener and a dialler with keys, and the listener's address."""
    rings = keyrings(2)
    listener, dialler = opened(rings[0]), opened(rings[1])
    return listener, dialler, await listener.listen(TCP)


async def next_of(transport, *kinds):
    """The next event of these kinds; others are passed over."""
    while not isinstance(event := await transport.receive(), kinds):
        pass
    return event


async def put(transport, link, *frames):
    """Send a message as soon as the link takes it."""
    while (sent := transport.send(link, frames)) is Sent.FULL:  # noqa: ASYNC110 - others read what comes
        await asyncio.sleep(0.001)
    assert sent is Sent.TAKEN
