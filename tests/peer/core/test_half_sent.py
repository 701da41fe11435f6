"""Half-sent bodies: what a receiver says that it holds, and where a sender goes on; one core on a table."""

import pytest

from dpeer.peer.core import wire
from dpeer.peer.core.chunking import ChunkedBody, chunked
from dpeer.peer.core.send_queue import SendQueues
from tests.peer.table import CHUNK, Table, payload

PROCESS, OTHER = b"a process", b"another one"
BODY = 400
"""Bytes of a body: seven chunks."""


def said(hello, **changes):
    """A hello of rank 2's process."""
    return hello.model_copy(update={"process": PROCESS, **changes})


def met(**config):
    """A core of this version that rank 2 has dialled."""
    table = Table(dialled=[1], process=OTHER, **config)
    table.established(1)
    table.hear("from 2", said(table.hello(2)))
    return table


def name(table, number, process=PROCESS, value=7.0):
    return wire.body_name(process, table.body(2, number, value)[0])


def holds(table, link):
    """What the core's last hello on a link says that it holds."""
    (*_, hello) = [one for one in table.written(link) if isinstance(one, wire.Hello)]
    return wire.held(hello.holds)


def again(table, link="again from 2", **changes):
    """Rank 2 connects again after a break; gives what the core's answer says that it holds."""
    if (earlier := table.core.members[2].link) is not None:
        table.breaks(earlier)
    table.hear(link, said(table.hello(2), **changes))
    return holds(table, link)


def whole(table, number=0):
    found = table.inbox.take(number, [2])
    return b"".join(bytes(part) for part in found[2].payload) if found else None


# -- the receiver ------------------------------------------------------------------------------------------------------


def test_after_a_break_a_hello_says_how_far_a_body_is_and_the_rest_completes_it():
    table = met()
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[:3])
    assert again(table) == {name(table, 0): 3 * CHUNK}
    table.hear("again from 2", announced, *chunks[3:])
    assert whole(table) == payload(7.0, table.learner)
    assert not table.core.drops.counts


def test_so_it_does_where_keys_show_whose_a_new_connection_is_before_the_break_is_noticed():
    table = Table(process=OTHER, authenticated=True)
    table.hear("from 2", said(table.hello(2)), identity=2)
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[:3], identity=2)
    table.hear("again from 2", said(table.hello(2)), identity=2)
    assert holds(table, "again from 2") == {name(table, 0): 3 * CHUNK}
    table.hear("again from 2", announced, *chunks[3:], identity=2)
    assert whole(table) == payload(7.0, table.learner)
    assert not table.core.drops.counts


def test_a_body_may_break_several_times():
    table = met()
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[:1])
    for place in range(1, 6):
        assert again(table, f"link {place}") == {name(table, 0): place * CHUNK}
        table.hear(f"link {place}", announced, chunks[place])
    assert again(table, "the last") == {name(table, 0): 6 * CHUNK}
    table.hear("the last", announced, chunks[6])
    assert whole(table) == payload(7.0, table.learner)


def test_a_sender_may_begin_again_at_any_byte_before():
    """One of an earlier version does at the first; another one that has heard less at an earlier one."""
    for place in (0, 1, 2, 3):
        table = met()
        announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
        table.hear("from 2", announced, *chunks[:3])
        again(table)
        table.hear("again from 2", announced, *chunks[place:])
        assert whole(table) == payload(7.0, table.learner)
        assert not table.core.drops.counts


def test_a_late_header_on_the_other_link_does_not_take_a_body_there():
    """Both have dialled, and the sender has changed to the other link; the header was still under way on this one."""
    table = Table(dialled=[1, 2], process=OTHER)
    table.established(2)
    table.hear("from 2", said(table.hello(2)))
    own = table.links[2]
    table.hear(own, said(table.hello(2, reply=True)))
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear(own, announced, *chunks[:3])
    table.hear("from 2", announced)
    assert holds(table, "from 2").get(name(table, 0)) in (None, 0), "on a link that lasts it goes on there"
    table.hear(own, *chunks[3:])
    assert whole(table) == payload(7.0, table.learner)
    assert not table.core.drops.counts


def test_a_body_that_goes_on_where_nothing_is_known_of_it_is_asked_for_once():
    table = met()
    table.written("from 2")
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[3:], announced, *chunks[4:])
    assert holds(table, "from 2") == {}
    table.hear("from 2", announced, *chunks)
    assert whole(table) == payload(7.0, table.learner)
    assert table.kinds("from 2").count("hello") == 0


@pytest.mark.parametrize("place", [4, 6])
def test_a_gap_is_never_filled_with_what_was_there(place):
    table = met()
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[:3])
    again(table)
    table.hear("again from 2", announced, *chunks[place:])
    assert whole(table) is None
    assert {*table.core.drops.counts} == {"stray"}


def test_another_process_of_the_rank_begins_at_the_first_byte():
    """Its body has the same header, and other bytes: nothing of the first is in it."""
    table = met()
    announced, *chunks = chunked(table.body(2, 0, 1e6), CHUNK)
    table.hear("from 2", announced, *chunks[:3])
    table.breaks("from 2")
    first = again(table, process=b"a later one")
    assert first == {name(table, 0): 3 * CHUNK}, "which is no name of that process's bodies"
    table.hear("again from 2", *chunked(table.body(2, 0, 7.0), CHUNK))
    assert whole(table) == payload(7.0, table.learner)
    assert name(table, 0, b"a later one") not in first


def test_bodies_that_came_whole_are_named_while_they_can_be_asked_for():
    table = met()
    table.hear("from 2", *chunked(table.body(2, 0, 7.0), CHUNK), table.body(2, 1, 7.0))
    assert again(table) == {name(table, 0): BODY, name(table, 1): BODY}
    table.inbox.take(0, [1, 2])
    assert name(table, 0) in again(table, "third"), "it was used, and its sender may not know"


@pytest.mark.parametrize("why", ["the round is over", "it has said goodbye", "all memory is lost"])
def test_nothing_is_kept_that_no_rest_can_complete(why):
    table = met()
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[:3])
    if why == "it has said goodbye":
        table.hear("from 2", table.goodbye(2, "stopped"))
    table.breaks("from 2")
    if why == "the round is over":
        table.do(table.core.begin(1, table.now))
    if why == "all memory is lost":
        table = met()
        table.breaks("from 2")
    assert again(table, process=b"again") == {}


def test_the_rest_of_a_body_whose_round_is_over_meanwhile_is_late_and_no_second_body():
    table = met()
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[:3])
    table.breaks("from 2")
    again(table)
    table.do(table.core.begin(1, table.now))
    table.hear("again from 2", announced, *chunks[3:])
    assert table.inbox.dropped == {"late": 1}
    assert not table.core.drops.counts
    table.hear("again from 2", *chunked(table.body(2, 1, 8.0), CHUNK))
    assert whole(table, 1) == payload(8.0, table.learner)


def test_a_dead_neighbor_s_half_body_takes_no_memory_once_its_round_is_over():
    table = met()
    announced, *chunks = chunked(table.body(2, 0, 7.0), CHUNK)
    table.hear("from 2", announced, *chunks[:3])
    table.wait(20)
    assert table.status(2) == "dead"
    partial = table.core.reassembly.get("from 2")
    assert partial.wanted
    table.do(table.core.begin(1, table.now))
    assert (partial.wanted, partial.chunks, partial.buffer) == (False, [], None)
    table.hear("from 2", *chunks[3:])
    assert not table.core.drops.counts
    assert not table.core.exchange.inbox.dropped["different"]


# -- the sender --------------------------------------------------------------------------------------------------------


def sending(version=None, **config):
    """A core whose body of round 0 is on its way to rank 2, and its messages of that link."""
    table = met(**config)
    table.written("from 2")
    table.runs(0)
    return table, table.written("from 2")


def own_name(table, process=OTHER):
    return wire.body_name(process, table.core.exchange.outbox.frames[0][0])


def offsets(messages):
    return [one.offset for one in messages if isinstance(one, wire.Chunk)]


def after(table, held, link="again from 2", **changes):
    """What is written to rank 2 after a hello on a new link that says what it holds."""
    table.breaks("from 2")
    table.hear(link, said(table.hello(2), holds=wire.holding(held), **changes))
    return table.written(link)


def test_a_sender_goes_on_where_the_receiver_says():
    table, first = sending()
    assert offsets(first) == [*range(0, BODY, CHUNK)]
    found = after(table, {own_name(table): 3 * CHUNK})
    assert [one.kind for one in found if not isinstance(one, wire.Chunk)][:2] == ["hello", "body"]
    assert offsets(found) == [*range(3 * CHUNK, BODY, CHUNK)]
    body = payload(0, table.learner)
    assert b"".join(bytes(part) for one in found if isinstance(one, wire.Chunk) for part in one.data) == body[192:]


def test_a_body_that_is_there_is_not_sent_again():
    table, _ = sending()
    assert [one.kind for one in after(table, {own_name(table): BODY})] == ["hello", "heartbeat"]
    assert 2 in table.core.exchange.outbox.sent[0]


@pytest.mark.parametrize("why", ["nothing", "another process", "another body", "released twice"])
def test_else_all_is_sent_again(why):
    table, _ = sending()
    held = {own_name(table): 3 * CHUNK}
    if why == "nothing":
        held = {}
    elif why == "another process":
        held = {own_name(table, PROCESS): 3 * CHUNK}
    elif why == "another body":
        held = {b"x" * 16: 3 * CHUNK}
    else:
        table.do(table.core.release(0, [payload(5.0, table.learner)], table.now))
    assert offsets(after(table, held)) == [*range(0, BODY, CHUNK)]


@pytest.mark.parametrize("held", [1, BODY - 1, BODY + 1, 2**64 - 1])
def test_a_wrong_claim_costs_its_author_the_body_and_no_other_neighbor(held):
    table, _ = sending()
    table.hear(table.links[1], table.hello(1, reply=True))
    found = after(table, {own_name(table): held})
    assert offsets(found) == ([*range(held, BODY, CHUNK)] if held < BODY else [])
    assert offsets(table.written(table.links[1])) == [*range(0, BODY, CHUNK)]


def test_a_hello_on_a_link_that_lasts_does_not_begin_a_body_again():
    table = met()
    table.written("from 2")
    table.runs(0)
    assert offsets(table.written("from 2", at_most=4)) == [0, CHUNK, 2 * CHUNK]
    table.hear("from 2", said(table.hello(2), holds=wire.holding({own_name(table): CHUNK})))
    assert offsets(table.written("from 2")) == [*range(3 * CHUNK, BODY, CHUNK)]


def test_after_a_silence_on_a_link_that_lasts_the_body_goes_on():
    table = met()
    table.written("from 2")
    table.runs(0)
    assert offsets(table.written("from 2", at_most=4)) == [0, CHUNK, 2 * CHUNK]
    table.wait(20)
    assert table.status(2) == "dead"
    assert not offsets(table.written("from 2"))
    table.hear("from 2", said(table.hello(2), holds=wire.holding({own_name(table): CHUNK})))
    assert offsets(table.written("from 2")) == [*range(3 * CHUNK, BODY, CHUNK)]


def test_a_paused_body_is_forgotten_with_its_round_and_its_link():
    queues, frames = SendQueues(CHUNK), [b"header", bytes(BODY)]
    for end in ("forget_before", "silence", "forget"):
        queues.add_body("link", 0, frames)
        assert queues["link"].next() == [b"header"]
        queues["link"].taken()
        assert queues.begin_anew("link") == [0]
        assert queues["link"].paused
        if end == "forget_before":
            queues["link"].forget_before(1)
        elif end == "silence":
            queues["link"].silence()
        else:
            queues.forget("link")
        assert not queues["link"].paused


@pytest.mark.parametrize("sizes", [[400], [16, 44, 340], [399, 1], [1, 0, 399]])
@pytest.mark.parametrize("skip", [0, 1, 16, 17, 60, 399])
def test_what_is_skipped_and_what_is_sent_are_the_body(sizes, skip):
    parts = [bytes([index + 1]) * size for index, size in enumerate(sizes)]
    body = ChunkedBody([b"header", *parts], skip=skip)
    assert body.next(CHUNK) == [b"header"]
    found, at = b"", skip
    while not body.over:
        header, *data = body.next(CHUNK)
        assert int.from_bytes(header[9:17], "little") == at
        found += b"".join(data)
        at = skip + len(found)
    assert found == b"".join(parts)[skip:]


def test_entries_of_a_hello_are_read_whatever_their_length():
    two = {b"a" * 16: 5, b"b" * 16: 2**64 - 1}
    assert wire.held(wire.holding(two)) == two
    assert wire.held(wire.holding(two)[:-1]) == {b"a" * 16: 5}
    assert wire.held(b"") == {}
    many = {bytes([one]) * 16: one for one in range(20)}
    assert len(wire.held(wire.holding(many))) == 8
