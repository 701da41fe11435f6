import asyncio

from dpeer.peer.inbox import Inbox, Received


def body(text):
    return Received([text], len(text))


async def test_collects_in_rank_order_and_keeps_the_next_round():
    inbox = Inbox()
    for rank in (5, 1):
        inbox.put(rank, 0, body(b"now"))
        inbox.put(rank, 1, body(b"next"))
    found = await inbox.collect(0, (1, 5), lambda rank: True)
    assert list(found) == [1, 5]
    assert found[1].payload == [b"now"]
    assert (await inbox.collect(1, (1, 5), lambda rank: True))[5].payload == [b"next"]


async def test_waits_only_for_those_awaited():
    inbox = Inbox()
    awaited = {1, 2}
    waiting = asyncio.create_task(inbox.collect(0, (1, 2, 3), awaited.__contains__))
    await asyncio.sleep(0)
    inbox.put(1, 0, body(b"one"))
    await asyncio.sleep(0)
    assert not waiting.done()
    awaited.remove(2)
    inbox.wake()
    assert list(await waiting) == [1]


async def test_of_no_use_is_dropped_and_counted():
    inbox = Inbox()
    inbox.open(4)
    inbox.put(1, 3, body(b"late"))
    inbox.put(1, 6, body(b"early"))
    inbox.put(1, 4, body(b"first"))
    inbox.put(1, 4, body(b"again"))
    assert inbox.dropped == {"late": 1, "early": 1, "duplicate": 1}
    assert (await inbox.collect(4, (1,), lambda rank: True))[1].payload == [b"first"]
    inbox.put(1, 4, body(b"after the round"))
    assert inbox.dropped["late"] == 2


async def test_opening_a_round_forgets_older_ones():
    inbox = Inbox()
    inbox.put(1, 0, body(b"x"))
    inbox.put(1, 1, body(b"y"))
    inbox.open(1)
    assert inbox.dropped == {"late": 1}
    assert (await inbox.collect(1, (1,), lambda rank: True))[1].payload == [b"y"]
