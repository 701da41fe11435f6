"""Bytes ahead of a release: where they are put, what they do not claim, and where a sender goes on; one core."""

import pytest

from dpeer.peer.core import wire
from dpeer.peer.core.chunking import chunked
from dpeer.peer.core.effects import Throttle
from dpeer.peer.core.incoming_bodies import IncomingBodies
from dpeer.peer.core.limits import USELESS_BODIES
from tests.peer.table import CHUNK, Table, payload

LINK = "from 2"


def met(number=0, **config):
    """A core with overlap that rank 2 has dialled."""
    table = Table(**{"overlap": True, "process": b"an own process", **config})
    table.hear(LINK, table.hello(2, number))
    table.written(LINK)
    return table


# -- the receiver ------------------------------------------------------------------------------------------------------


def announced(table, number, value=7.0):
    """The header ahead of rank 2's body, and chunks of all of its bytes."""
    content = payload(value, table.learner)
    header = wire.Ahead(rank=2, federation=table.federation, round=number, sizes=[len(content)])
    return list(chunked([*wire.encode(header), content], CHUNK))


def released(table, number, value=7.0):
    """The same of the body itself."""
    return list(chunked(table.body(2, number, value), CHUNK))


def whole(table, number):
    found = table.inbox.take(number, [2])
    return b"".join(bytes(part) for part in found[2].payload) if found else None


@pytest.mark.parametrize("count", [0, 1, 3, 6])
def test_a_body_is_whole_with_what_came_ahead_of_it(count):
    table = met()
    header, *chunks = announced(table, 0)
    table.hear(LINK, header, *chunks[:count])
    own, *rest = released(table, 0)
    table.hear(LINK, own, *rest[count:])
    assert whole(table, 0) == payload(7.0, table.learner)
    assert not table.core.drops.counts


def test_bytes_ahead_claim_no_round_and_no_body():
    table = met()
    header, *chunks = announced(table, 1)
    table.hear(LINK, header, *chunks[:-1])
    assert table.core.members[2].current_round == 0
    assert not table.inbox.has(2, 1)
    assert not table.core.drops.counts


def test_the_last_bytes_come_after_the_release_alone():
    table = met()
    table.hear(LINK, *announced(table, 0))
    assert table.core.drops.counts == {"stray": 1}
    assert not table.inbox.has(2, 0)


@pytest.mark.parametrize("change", ["other bytes", "another round", "other sizes"])
def test_bytes_ahead_of_another_body_are_not_used(change):
    table = met()
    number = 1 if change == "another round" else 0
    content = payload(1.0, table.learner)[: 300 if change == "other sizes" else None]
    header = wire.Ahead(rank=2, federation=table.federation, round=number, sizes=[len(content)])
    ahead = list(chunked([*wire.encode(header), content], CHUNK))
    table.hear(LINK, *ahead[:3], *released(table, 0))
    assert whole(table, 0) == payload(7.0, table.learner)
    assert not table.core.drops.counts


def test_a_hello_does_not_count_bytes_ahead_that_may_be_of_another_body():
    """The header came, and the link broke before the first chunk, which would have begun at byte 0."""
    table = met()
    table.hear(LINK, *announced(table, 0, 1.0)[:4], released(table, 0)[0])
    table.breaks(LINK)
    table.hear("again", table.hello(2))
    assert wire.held(next(one for one in table.written("again") if isinstance(one, wire.Hello)).holds) == {}
    table.hear("again", *released(table, 0))
    assert whole(table, 0) == payload(7.0, table.learner)
    assert not table.core.drops.counts


def test_a_hello_counts_them_once_a_chunk_has_gone_on_after_them():
    table = met()
    own, *rest = released(table, 0)
    table.hear(LINK, *announced(table, 0)[:4], own, rest[3])
    table.breaks(LINK)
    table.hear("again", table.hello(2))
    (held,) = wire.held(next(one for one in table.written("again") if isinstance(one, wire.Hello)).holds).values()
    assert held == 4 * CHUNK
    table.hear("again", own, *rest[4:])
    assert whole(table, 0) == payload(7.0, table.learner)


@pytest.mark.parametrize("place", [0, 3])
def test_a_sender_may_begin_at_the_first_byte_all_the_same(place):
    table = met()
    header, *chunks = announced(table, 0)
    table.hear(LINK, header, *chunks[:3])
    own, *rest = released(table, 0)
    table.hear(LINK, own, *rest[place:])
    assert whole(table, 0) == payload(7.0, table.learner)
    assert not table.core.drops.counts


def test_bytes_ahead_are_gone_with_their_link():
    table = met()
    header, *chunks = announced(table, 0)
    table.hear(LINK, header, *chunks[:3])
    table.breaks(LINK)
    table.hear("again", table.hello(2))
    assert wire.held(next(one for one in table.written("again") if isinstance(one, wire.Hello)).holds) == {}
    own, *rest = released(table, 0)
    table.hear("again", own, *rest)
    assert whole(table, 0) == payload(7.0, table.learner)
    assert not table.core.drops.counts


def test_a_peer_without_overlap_takes_none():
    table = met(overlap=False)
    table.hear(LINK, *announced(table, 0)[:3])
    assert table.core.drops.counts == {"malformed": 1, "stray": 2}
    assert not table.core.reassembly._ahead


@pytest.mark.parametrize("sizes", [[401], [1] * 5000], ids=["too many bytes", "too many buffers"])
def test_no_memory_is_taken_for_more_than_a_body(sizes):
    table = met()
    table.hear(LINK, wire.Ahead(rank=2, federation=table.federation, round=0, sizes=sizes))
    assert table.core.drops.counts == {"oversized": 1}
    assert not table.core.reassembly._ahead


@pytest.mark.parametrize("then", ["another one ahead", "another body"])
def test_one_whose_bytes_ahead_lead_to_no_body_is_slowed_down(then):
    table = met()
    effects = []
    for number in range(int(USELESS_BODIES) + 2):
        for message in announced(table, 1, float(number))[:2]:
            effects += table.core.receive(LINK, message, table.now)
        if then == "another body":
            table.hear(LINK, table.body(2, 0))
    assert sum(isinstance(one, Throttle) for one in effects) == 2
    assert len(table.core.reassembly._ahead) == (1 if then == "another one ahead" else 0)


def test_bytes_ahead_of_a_body_that_is_here_are_not_paid_back():
    table = met()
    table.hear(LINK, *released(table, 0))
    effects = []
    for _ in range(2 * int(USELESS_BODIES)):
        for message in [*announced(table, 0)[:-1], released(table, 0)[0]]:
            effects += table.core.receive(LINK, message, table.now)
    assert sum(isinstance(one, Throttle) for one in effects) >= USELESS_BODIES


@pytest.mark.parametrize("number", [1, 4])
def test_no_bytes_are_taken_ahead_of_a_round_that_is_far_away(number):
    table = met(start=2)
    table.hear(LINK, announced(table, number)[0])
    assert table.core.drops.counts == {"stray": 1}
    assert not table.core.reassembly._ahead


def test_one_that_has_left_has_no_bytes_taken():
    table = met()
    table.hear(LINK, table.goodbye(2, "stopped"), announced(table, 0)[0])
    assert not table.core.reassembly._ahead


def test_time_before_a_break_is_not_measured():
    table = met()
    header, *chunks = announced(table, 0)
    own, *rest = released(table, 0)
    table.hear(LINK, header, chunks[0])
    table.now += 1
    table.hear(LINK, chunks[1], own, rest[2])
    table.now += 10
    table.breaks(LINK)
    table.hear("again", table.hello(2), own)
    table.now += 3
    kept = table.core.reassembly.get("again")
    table.hear("again", *rest[3:])
    assert kept.pace == (400 - 3 * CHUNK, 3.0)


def test_one_whose_bodies_follow_is_not():
    table = met()
    table.do(table.core.begin(0, table.now))
    for number in range(5):
        header, *chunks = announced(table, number)
        count = number % 3
        own, *rest = released(table, number)
        for message in (header, *chunks[:count], own, *rest[count:]):
            assert Throttle() not in table.core.receive(LINK, message, table.now)
        table.inbox.take(number, [2])
        table.inbox.open(number + 1)
    assert not table.core.drops.counts


def test_bytes_ahead_go_with_their_round():
    table = met()
    table.hear(LINK, *announced(table, 1)[:4])
    table.do(table.core.begin(2, table.now))
    assert table.core.reassembly.take_ahead(LINK, wire.decode(table.body(2, 1), table.core._limits)) is None


def test_a_second_body_of_a_round_is_compared_with_what_came_ahead_of_it():
    """Of a process that has begun anew: its bytes ahead are another body's."""
    for value, reason in ((7.0, "duplicate"), (8.0, "different")):
        for count in (0, 3, 6):
            for place in {0, count}:
                table = met()
                table.hear(LINK, *released(table, 0))
                header, *chunks = announced(table, 0, value)
                own, *rest = released(table, 0, value)
                table.hear(LINK, header, *chunks[:count], own, *rest[place:])
                assert table.inbox.dropped == {reason: 1}, (value, count, place)
                assert table.inbox.has(2, 0)


@pytest.mark.parametrize(("place", "found"), [(6, (400, 62.0)), (0, (400, 2.0))])
def test_a_line_is_measured_by_what_came_ahead_too(place, found, monkeypatch):
    measured = []
    monkeypatch.setattr(IncomingBodies, "_measure", lambda self, *values: measured.append(values[1:]))
    table = met()
    header, *chunks = announced(table, 0)
    table.hear(LINK, header)
    for one in chunks[:-1]:
        table.now += 10
        table.hear(LINK, one)
    own, *rest = released(table, 0)
    table.now += 5  # in which nothing was to come
    table.hear(LINK, own)
    table.now += 2
    table.hear(LINK, *rest[place:])
    assert measured == [found]


def test_the_time_counts_as_receiving_until_all_that_can_come_has_come():
    table = met()
    header, *chunks = announced(table, 0)
    table.hear(LINK, header)
    for one in chunks[:-1]:
        table.now += 1
        table.hear(LINK, one)
    table.now += 100
    assert table.core.incoming_bodies.receive_time.seconds(table.now) == 6.0
    table.hear(LINK, released(table, 0)[0])
    table.now += 2
    table.hear(LINK, released(table, 0)[-1])
    assert table.core.incoming_bodies.receive_time.seconds(table.now + 100) == 8.0


# -- the sender --------------------------------------------------------------------------------------------------------


def trains_ahead(table, number, content):
    """Rounds overlap: the body of the round is released, and the next one is ready."""
    table.do(table.core.begin(number, table.now))
    table.do(table.core.release(number, [payload(1.0, table.learner)], table.now))
    table.do(table.core.send_ahead(number + 1, content, table.now))


def offsets(messages):
    return [one.offset for one in messages if isinstance(one, wire.Chunk)]


def test_what_went_ahead_is_not_sent_again():
    table = met()
    content = [payload(7.0, table.learner)]
    trains_ahead(table, 0, content)
    before = table.written(LINK)
    assert [one.kind for one in before if not isinstance(one, wire.Chunk)] == ["body", "ahead"]
    assert offsets(before) == [*range(0, 400, CHUNK), *range(0, 384, CHUNK)], "the last chunk waits"
    table.hear(LINK, table.body(2, 0))
    table.do(table.core.begin(1, table.now))
    table.do(table.core.release(1, content, table.now))
    header, last = [one for one in table.written(LINK) if not isinstance(one, wire.Heartbeat)]
    assert (header.kind, last.offset, last.nbytes) == ("body", 384, 16)


def test_another_body_is_sent_from_its_first_byte_on():
    table = met()
    trains_ahead(table, 0, [payload(7.0, table.learner)])
    table.written(LINK)
    table.do(table.core.begin(1, table.now))
    table.do(table.core.release(1, [payload(8.0, table.learner)], table.now))
    assert offsets(table.written(LINK)) == [*range(0, 400, CHUNK)]


def test_bytes_ahead_wait_for_the_bodies_of_their_link_and_for_its_heartbeats():
    table = met()
    trains_ahead(table, 0, [payload(7.0, table.learner)])
    table.core.exchange.send_heartbeats([2])
    kinds = table.kinds(LINK)
    assert kinds.index("body") < kinds.index("heartbeat") < kinds.index("ahead")


def test_nothing_goes_ahead_to_a_neighbor_of_an_earlier_round():
    table = met()
    trains_ahead(table, 1, [payload(7.0, table.learner)])
    assert "ahead" not in table.kinds(LINK)
    table.hear(LINK, table.beat(2, 1))
    assert "ahead" in table.kinds(LINK)


def test_a_goodbye_is_the_last_word():
    table = met()
    trains_ahead(table, 0, [payload(7.0, table.learner)])
    table.written(LINK, at_most=9)
    table.do(table.core.leave("stopped", table.now))
    assert table.kinds(LINK) == ["goodbye"]
    assert table.core.written


def test_nothing_goes_ahead_of_a_round_that_a_leaving_peer_does_not_begin():
    table = met()
    table.do(table.core.drain(table.now))
    trains_ahead(table, 0, [payload(7.0, table.learner)])
    assert "ahead" not in table.kinds(LINK)
    table = met()
    trains_ahead(table, 0, [payload(7.0, table.learner)])
    assert "ahead" in [one.kind for one in table.written(LINK, at_most=9) if not isinstance(one, wire.Chunk)]
    table.do(table.core.drain(table.now))
    assert table.written(LINK) == []


def test_nothing_goes_ahead_to_one_that_has_left():
    table = met()
    trains_ahead(table, 0, [payload(7.0, table.learner)])
    table.written(LINK, at_most=9)
    table.hear(LINK, table.goodbye(2, "stopped"))
    assert table.kinds(LINK) == []


@pytest.mark.parametrize("content", [None, [b"\x07" * 400]], ids=["it is sat out", "it is released"])
def test_nothing_goes_ahead_of_a_round_once_it_is_known(content):
    table = met()
    trains_ahead(table, 0, [payload(7.0, table.learner)])
    table.written(LINK, at_most=9)
    table.do(table.core.begin(1, table.now))
    table.do(table.core.release(1, content, table.now))
    messages = table.written(LINK)
    tags = {one.tag for one in messages if isinstance(one, wire.Chunk)}
    assert len(tags) == (0 if content is None else 1)
    assert "ahead" not in [getattr(one, "kind", "chunk") for one in messages]


def test_nothing_goes_ahead_to_a_neighbor_that_is_past_the_round():
    table = met()
    table.hear(LINK, table.beat(2, 2))
    trains_ahead(table, 0, [payload(7.0, table.learner)])
    assert "ahead" not in table.kinds(LINK)


def test_after_a_silence_a_body_begins_at_its_first_byte():
    table = met()
    content = [payload(7.0, table.learner)]
    trains_ahead(table, 0, content)
    table.written(LINK)
    table.wait(20)
    assert table.status(2) == "dead"
    table.hear(LINK, table.hello(2))
    table.do(table.core.begin(1, table.now))
    table.do(table.core.release(1, content, table.now))
    table.hear(LINK, table.beat(2, 1))
    assert offsets(table.written(LINK))[-7:] == [*range(0, 400, CHUNK)]
