"""Links have their turns, however much strangers send."""

import asyncio
import time

import pytest
import zmq

from dpeer.peer import Limits, ZeroMQTransport
from dpeer.peer.transport import Arrival, Opened

FLOODERS, EACH, HONEST = 30, 200, 6
LIMITS = Limits(payload_bytes=1000)
QUEUED = 16
"""Messages that the transport may have read before the honest ones came, and while it looked for them."""


@pytest.fixture
async def flooded():
    """A transport that listens, and its address; from 30 strangers come more messages than a test reads."""
    transport = ZeroMQTransport(LIMITS)
    address = await transport.listen("tcp://127.0.0.1:0")
    with zmq.Context() as context:
        strangers = [context.socket(zmq.DEALER) for _ in range(FLOODERS)]
        for stranger in strangers:
            stranger.setsockopt(zmq.LINGER, 0)
            stranger.connect(address)
            for _ in range(EACH):
                stranger.send(b"junk")
        seen = set()
        while len(seen) < FLOODERS:  # all are connected
            seen.add((await transport.receive()).link)
        yield transport, address
        for stranger in strangers:
            stranger.close()
    await transport.close(0)


def all_has_come():
    """Let the I/O threads of libzmq fetch what was sent, while nobody reads it; no event says when they have."""
    time.sleep(0.3)


async def others_before_the_last(transport):
    """How many messages of others come before the last honest one."""
    others, honest = 0, 0
    async with asyncio.timeout(100):
        while honest < HONEST:
            event = await transport.receive()
            if isinstance(event, Arrival):
                junk = bytes(event.frames[0]) == b"junk"
                others, honest = others + junk, honest + (not junk)
    return others


async def test_one_that_was_dialled_has_every_other_turn(flooded):
    transport, _ = flooded
    honest = ZeroMQTransport(LIMITS)
    link = transport.dial(await honest.listen("tcp://127.0.0.1:0"))
    while await transport.receive() != Opened(link):
        pass
    while not transport.send(link, [b"here"]):
        pass
    back = (await honest.receive()).link
    for _ in range(HONEST):
        honest.send(back, [b"body"])
    all_has_come()
    assert await others_before_the_last(transport) <= HONEST + QUEUED
    await honest.close(1)


async def test_one_that_dialled_has_as_many_turns_as_each_of_those_who_flood(flooded):
    transport, address = flooded
    honest = ZeroMQTransport(LIMITS)
    link = honest.dial(address)
    assert await honest.receive() == Opened(link)
    for _ in range(HONEST):
        honest.send(link, [b"body"])
    all_has_come()
    assert await others_before_the_last(transport) <= HONEST * FLOODERS + QUEUED
    await honest.close(1)
