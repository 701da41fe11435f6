"""Messages between a launcher and its peers: whole, in order, and waited for by nobody."""

import asyncio
import socket

import pytest

from dpeer.federation.child_messages import Channel


@pytest.fixture
async def pair():
    ours, theirs = socket.socketpair()
    made = [Channel(ours), Channel(theirs)]
    yield made
    for one in made:
        one.close()


@pytest.mark.slow
async def test_messages_of_any_size_come_whole_and_in_order(pair):
    one, other = pair
    sent = [{"kind": "x", "text": "é\n" * size} for size in (0, 1, 10**6, 3)]
    for message in sent:
        one.send(message)
    assert [await other.receive() for _ in sent] == sent
    await one.sent()


async def test_an_end_that_is_not_read_is_not_waited_for_and_gets_what_matters_when_it_reads_again():
    ours, theirs = socket.socketpair()
    one, rounds = Channel(ours), 200
    for number in range(rounds):
        one.send({"kind": "record", "number": number, "text": "x" * 10_000})
    one.send({"kind": "end"})
    unsent = asyncio.ensure_future(one.sent())
    await asyncio.sleep(0)
    assert not unsent.done()
    other = Channel(theirs)  # somebody reads
    came = [await other.receive() for _ in range(rounds + 1)]
    assert [message["number"] for message in came[:-1]] == [*range(rounds)]
    assert came[-1] == {"kind": "end"}
    await unsent
    one.close()
    assert await other.receive() is None
    assert await other.receive() is None
    other.close()


async def test_who_has_gone_is_heard_to_the_end_and_told_nothing_more(pair):
    one, other = pair
    other.send({"kind": "error", "message": "why"})
    other.close()
    one.send({"kind": "stop"})
    await one.sent()
    assert await one.receive() == {"kind": "error", "message": "why"}
    assert await one.receive() is None
