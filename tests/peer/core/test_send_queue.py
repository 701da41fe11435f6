"""Send queues in step: which link's body waits for which other one's while rounds overlap, and what ends that."""

import random

import pytest

from dpeer.peer.core.effects import Write
from dpeer.peer.core.limits import IN_STEP, LEAD, LEAST_CHUNK
from dpeer.peer.core.send_queue import SendQueues
from tests.peer.table import Table

NEAR, FAR = "a link", "a slower one"
CHUNKS = 20
MOST = 64 * LEAST_CHUNK


def frames(number=0, chunks=CHUNKS):
    return [b"header of round %d" % number, bytes(chunks * LEAST_CHUNK)]


def queues(*, overlap=True, most=MOST, links=(NEAR, FAR)):
    """Queues of neighbors; with overlap bytes have gone ahead, so that bodies keep in step."""
    made = SendQueues(most)
    for link in links:
        made[link].known = True
        if overlap:
            made.add_ahead(link, 0, frames())
    made.drop_ahead()
    return made


def write(queues, link, at_most=1000):
    """Write until the link has nothing or waits; returns how many messages."""
    count = 0
    while count < at_most and queues[link].next(waits=queues.waits(link)) is not None:
        queues[link].taken()
        count += 1
    return count


def write_chunks(queues, link, count):
    """Write a body's header and so many chunks, whatever they wait for."""
    for _ in range(1 + count):
        assert queues[link].next() is not None
        queues[link].taken()


def offset(queues, link):
    return queues[link].under_way[1].offset // LEAST_CHUNK


def both(queues, number=0, **sizes):
    for link in (NEAR, FAR):
        queues.add_body(link, number, frames(number, **sizes))


def test_a_body_waits_for_the_one_that_is_behind():
    sent = queues()
    both(sent)
    write(sent, NEAR)
    assert offset(sent, NEAR) == LEAD + 1
    assert [*sent.held] == [NEAR]
    write(sent, FAR, 1 + 3)  # with its header
    write(sent, NEAR)
    assert offset(sent, NEAR) == LEAD + 1 + 3
    write(sent, FAR)
    assert offset(sent, FAR) == LEAD + 1 + 3 + LEAD + 1
    assert [*sent.held] == [NEAR, FAR]


def test_none_waits_for_one_that_is_written_whole():
    sent = queues()
    sent.add_body(NEAR, 0, frames())
    assert write(sent, NEAR) == 1 + CHUNKS
    sent.add_body(FAR, 0, frames())
    assert write(sent, FAR) == 1 + CHUNKS


def test_none_waits_where_rounds_do_not_overlap():
    sent = queues(overlap=False)
    both(sent)
    assert write(sent, NEAR) == 1 + CHUNKS


@pytest.mark.parametrize("most", [LEAST_CHUNK, None])
def test_none_waits_on_a_line_with_the_longest_chunks(most):
    sent = queues(most=most)
    both(sent)
    assert write(sent, NEAR) == (1 if most is None else 1 + CHUNKS)


@pytest.mark.parametrize(("neighbors", "in_step"), [(IN_STEP, True), (IN_STEP + 1, False)])
def test_very_many_links_do_not_keep_in_step(neighbors, in_step):
    sent = queues(links=range(neighbors))
    for link in range(neighbors):
        sent.add_body(link, 0, frames())
    write(sent, 0)
    assert (0 in sent.held) is in_step


def test_none_waits_for_a_link_on_which_nothing_moves():
    sent = queues()
    both(sent)
    write(sent, FAR, 1)
    write(sent, NEAR)
    sent.beat()
    write(sent, NEAR)
    assert offset(sent, NEAR) == LEAD + 2, "with each heartbeat one is written all the same"
    sent.beat()
    write(sent, NEAR, 4)
    assert offset(sent, NEAR) == LEAD + 2 + 4
    write(sent, FAR, 1)  # it moves again
    assert write(sent, NEAR) == 0
    assert [*sent.held] == [NEAR]


def test_a_link_that_waits_for_a_much_slower_one_is_never_silent_for_longer_than_a_heartbeat():
    """Its heartbeats come after the body, so without chunks its neighbor would take this peer for dead."""
    sent = queues(most=640 * LEAST_CHUNK)
    both(sent, chunks=1000)
    sent.pace(NEAR, 120 * LEAST_CHUNK)
    for _ in range(5):
        sent.beat()
        write(sent, FAR, 5)
        assert write(sent, NEAR) > 0


def test_bytes_ahead_wait_for_the_round_before():
    sent = queues()
    both(sent)
    write_chunks(sent, FAR, CHUNKS - 4)
    write_chunks(sent, NEAR, CHUNKS)
    sent.add_ahead(NEAR, 1, frames(1))
    write(sent, NEAR)
    assert sent[NEAR].under_way[0] == 1
    assert offset(sent, NEAR) == LEAD + 1 - 4
    write(sent, FAR)
    sent.add_ahead(FAR, 1, frames(1))
    write(sent, NEAR)
    assert offset(sent, NEAR) == LEAD + 1


def test_heartbeats_and_small_messages_pass_what_waits():
    sent = queues()
    both(sent)
    write(sent, NEAR)
    sent[NEAR].add("bye", [b"a small one"])
    assert write(sent, NEAR) == 1
    write_chunks(sent, FAR, CHUNKS - 1)
    while sent[NEAR].bodies:
        sent[NEAR].next()
        sent[NEAR].taken()
    sent.add_ahead(NEAR, 1, frames(1))
    write(sent, NEAR)
    sent[NEAR].add_heartbeat(lambda: [b"a heartbeat"])
    assert sent.waits(NEAR)
    assert write(sent, NEAR) == 1


@pytest.mark.parametrize("number", [1, 5])
def test_a_released_body_waits_for_no_other_round(number):
    """A returner gets earlier rounds' bodies, and those that it gets hold up no one."""
    sent = queues()
    sent.add_body(FAR, 0, frames())
    sent.add_body(NEAR, number, frames(number))
    assert write(sent, NEAR) == 1 + CHUNKS


def test_bodies_of_other_lengths_are_compared_by_their_shares():
    sent = queues()
    sent.add_body(NEAR, 0, frames())
    sent.add_body(FAR, 0, frames(chunks=2 * CHUNKS))
    write_chunks(sent, FAR, CHUNKS)  # half of it
    write(sent, NEAR)
    assert offset(sent, NEAR) == CHUNKS // 2 + LEAD + 1


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_order_all_is_written(seed):
    draw = random.Random(seed)
    links = [*range(draw.randint(2, 5))]
    sent = queues(links=links)
    for link in links:
        sent.add_body(link, 0, frames(chunks=draw.randint(1, 30)))
    for _ in range(10_000):
        write(sent, draw.choice(links), draw.randint(1, 4))
        if not len(sent):
            break
        assert any(not sent.waits(link) for link in links if sent[link].bodies)
    assert not len(sent)


def test_once_the_one_behind_is_written_the_core_writes_on_the_others():
    core = Table(chunk_bytes=MOST).core
    for link in (NEAR, FAR):
        core.send_queues[link].known = True
        core.send_queues.add_ahead(link, 0, frames())
    core.send_queues.drop_ahead()
    both(core.send_queues)
    while core.outgoing(NEAR) is not None:
        assert core.taken(NEAR) == []
    for _ in "header", "chunk":
        assert core.outgoing(FAR) is not None
        assert core.taken(FAR) == [Write(NEAR)]
        core.outgoing(NEAR)
    assert core.taken(NEAR) == []
    assert core.outgoing(NEAR) is None, "that was the one chunk"


def test_a_link_that_is_forgotten_holds_up_no_one():
    sent = queues()
    both(sent)
    write(sent, NEAR)
    sent.forget(FAR)
    assert write(sent, NEAR) == CHUNKS - LEAD - 1
