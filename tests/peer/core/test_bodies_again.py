"""Bodies that come again after a reset, a silence, or on another link: the same one is one, and begins at its start."""

import pytest

from dpeer.peer.core import wire
from tests.peer.table import CHUNK, Table, chunked, payload

BODY = 400
"""Bytes of a body: seven chunks."""


def met(**config):
    """A core that rank 2 has dialled."""
    table = Table(dialled=[1], **config)
    table.established(1)
    table.hear("from 2", table.hello(2))
    return table


def whole(table, number=0):
    found = table.inbox.take(number, [2])
    return b"".join(bytes(part) for part in found[2].payload) if found else None


# -- the receiver ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [True, False], ids=["the break is noticed", "a new connection comes first"])
@pytest.mark.parametrize("same", [True, False], ids=["the same body", "another one"])
def test_after_a_break_a_body_comes_whole_and_nothing_of_the_first_try_is_in_it(broken, same):
    """A process that was killed may train the round to another body: its first one has not come."""
    table = Table(authenticated=True)
    first = list(chunked(table.body(2, 0, 7.0 if same else 1e6), CHUNK))[:4]
    table.hear("from 2", table.hello(2), *first, identity=2)
    if broken:
        table.breaks("from 2")
    table.hear("again from 2", table.hello(2), *chunked(table.body(2, 0, 7.0), CHUNK), identity=2)
    assert whole(table) == payload(7.0, table.learner)
    assert not table.core.reports.counts
    assert not table.inbox.dropped
    assert not len(table.core.reassembly)


def test_a_body_goes_on_nowhere_but_at_its_first_byte():
    table = met()
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[:3])
    table.breaks("from 2")
    table.hear("again from 2", table.hello(2), announced, *chunks[3:])
    assert whole(table) is None
    assert {*table.core.reports.counts} == {"stray"}


def test_a_late_header_on_the_other_link_does_not_take_a_body_there():
    """Both have dialled, and the sender has changed to the other link; a header was still under way on this one."""
    table = Table(dialled=[1, 2])
    table.established(2)
    table.hear("from 2", table.hello(2))
    own = table.links[2]
    table.hear(own, table.hello(2, reply=True))
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear(own, announced, *chunks[:3])
    table.hear("from 2", announced)
    table.hear(own, *chunks[3:])
    assert whole(table) == payload(7.0, table.learner)


def test_nothing_is_kept_of_a_half_body_whose_round_is_over():
    table = met()
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[:3])
    table.do(table.core.begin(1, table.now))
    partial = table.core.reassembly.get("from 2")
    assert partial.buffer is None
    assert table.inbox.dropped == {"late": 1}
    table.hear("from 2", *chunks[3:], *chunked(table.body(2, 1, 8.0), CHUNK))
    assert table.inbox.dropped == {"late": 1}
    assert not table.core.reports.counts
    assert whole(table, 1) == payload(8.0, table.learner)


# -- the sender --------------------------------------------------------------------------------------------------------


def sending(at_most=10_000):
    """A core whose body of round 0 is on its way to rank 2, and its messages of that link."""
    table = met()
    table.written("from 2")
    table.runs(0)
    return table, table.written("from 2", at_most)


def offsets(messages):
    return [one.offset for one in messages if isinstance(one, wire.Chunk)]


@pytest.mark.parametrize("written", [4, 10_000])
def test_after_a_break_all_of_a_body_is_sent_again(written):
    table, first = sending(written)
    assert offsets(first) == [*range(0, BODY, CHUNK)][: written - 1]
    table.breaks("from 2")
    table.hear("again from 2", table.hello(2))
    found = table.written("again from 2")
    assert [one.kind for one in found if not isinstance(one, wire.Chunk)] == ["hello", "body", "heartbeat"]
    assert offsets(found) == [*range(0, BODY, CHUNK)]
    assert b"".join(one.data for one in found if isinstance(one, wire.Chunk)) == payload(0, table.learner)


def test_a_hello_on_a_link_that_lasts_does_not_begin_a_body_again():
    table, first = sending(4)
    assert offsets(first) == [0, CHUNK, 2 * CHUNK]
    table.hear("from 2", table.hello(2))
    assert offsets(table.written("from 2")) == [*range(3 * CHUNK, BODY, CHUNK)]


def test_after_a_silence_on_a_link_that_lasts_the_body_begins_again():
    """What was written may wait there; the receiver takes the same digest for the same body."""
    table, first = sending(4)
    assert offsets(first) == [0, CHUNK, 2 * CHUNK]
    table.wait(20)
    assert table.status(2) == "dead"
    assert not offsets(table.written("from 2"))
    table.hear("from 2", table.hello(2))
    assert offsets(table.written("from 2")) == [*range(0, BODY, CHUNK)]
