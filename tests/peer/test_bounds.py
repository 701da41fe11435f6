"""What others can make a core keep, read or log has bounds."""

import numpy as np
import pytest

from dpeer.peer.core import wire
from dpeer.peer.core.effects import Fail, Throttle
from dpeer.peer.transport import Arrival
from tests.peer.table import Table, chunked, encoded, payload, ring

# -- memory ------------------------------------------------------------------------------------------------------------


def held(table, link):
    """The messages that wait to be written on a link, which are taken."""
    found = []
    while (frames := table.core.outgoing(link)) is not None:
        found.append(frames)
        table.core.taken(link)
    return found


def test_answers_to_one_that_says_hello_without_end_and_never_reads_do_not_pile_up():
    table = ring()
    hello = sum(len(frame) for frame in wire.encode(table.hello(0)))
    for link in ("from 2", "from a stranger"):
        for _ in range(1000):
            table.hear(link, table.hello(2 if link == "from 2" else 1_000))
        assert sum(map(wire.size, held(table, link))) <= hello + 2 * table.learner.payload_bytes


def test_nothing_is_kept_for_a_stranger_whose_link_is_full():
    table = ring()
    table.hear("from a stranger", table.hello(1_000))
    assert table.core.send_queues.get("from a stranger") is not None
    table.core.full("from a stranger")
    assert table.core.send_queues.get("from a stranger") is None
    table.hear("from 2", table.hello(2))
    table.core.full("from 2")
    assert table.core.send_queues.get("from 2") is not None


def test_any_number_of_strangers_that_do_not_read_holds_little():
    table = ring()
    for number in range(3000):
        table.hear(f"from stranger {number}", table.hello(1_000))
    queues = [table.core.send_queues.get(f"from stranger {number}") for number in range(3000)]
    assert sum(queue is not None for queue in queues) <= 1024
    assert table.core.send_queues.get("from 2") is not None


def test_strangers_that_want_the_rank_of_a_neighbor_without_end_are_not_read_for_a_while(monkeypatch):
    """However many they are: without that, decoding long hellos would leave no time for training."""
    table = ring()
    decode, decoded = wire.decode, []

    def counted(frames, *rest):
        decoded.append(frames)
        return decode(frames, *rest)

    monkeypatch.setattr(wire, "decode", counted)
    long = table.hello(2, fingerprint={"size": 4, "long": "x" * 2**19})
    for _ in range(150):
        for number in range(4):
            table.hear(f"from stranger {number}", long)
    assert 4 <= len(decoded) <= 4 * 8
    assert table.core.members[2].link == "from 2"
    table.wait(6, lambda: table.hear("from 2", table.beat(2, 0)))
    decoded.clear()
    table.hear("from stranger 0", long)
    assert decoded == [wire.encode(long)], "later they are read again"


def test_for_one_that_claims_progress_and_never_reads_two_bodies_are_kept_at_most():
    table = ring(rounds=40)
    for number in range(40):
        table.runs(number)
        for link, rank in ((table.links[1], 1), ("from 2", 2)):
            table.hear(link, table.body(rank, number), table.beat(rank, number + 1))
        table.written(table.links[1])
        table.written("from 2", at_most=0)
        table.core.outgoing("from 2")
        table.do(table.core.wait("settle", number, table.now))
        assert len(table.core.send_queues.get("from 2").bodies) <= 2
    assert sum(map(wire.size, held(table, "from 2"))) <= 2 * table.learner.payload_bytes + 64


def test_a_round_that_does_not_exist_is_not_believed():
    table = ring()
    table.hear(table.links[1], table.beat(1, 6), table.beat(1, 2**40))
    assert table.core.members[1].current_round == 0
    assert table.core.reports.counts == {"malformed": 2}


# -- short chunks, and a line that becomes slow ------------------------------------------------------------------------


@pytest.mark.parametrize("headers", ["the same", "others"])
def test_bodies_that_begin_again_and_again_are_late_as_others_of_no_use(headers):
    table, late = ring(), []
    table.runs(0)
    for number in range(200):
        presence = [0, 0, number % 5 if headers == "others" else 0]
        known = np.asarray(presence, "<i4").tobytes()
        announced, *chunks = chunked(encoded(table.federation, 1, 0, [payload(7.0, table.learner)], known), 64)
        table.hear(table.links[1], announced)
        effects = [table.core.happened(Arrival(table.links[1], chunk), table.now) for chunk in chunks[:-1]]
        late.append(all(any(isinstance(one, Throttle) for one in some) for some in effects))
    assert not any(late[:5]), "an honest neighbor's that begins again after a silence"
    assert all(late[6:])
    table.now += 5
    table.hear(table.links[1], *chunked(table.body(1, 0), 64))
    table.hear("from 2", table.body(2, 0))
    assert [*table.ended[-1].bodies] == [1, 2]


def test_only_the_last_chunk_of_a_buffer_may_be_short():
    table = ring()
    table.runs(0)
    body = table.body(1, 0, 7.0)
    header, mark = body[0], wire.tag(body[0])
    table.hear(table.links[1], [header])
    for offset in range(0, 400, 4):
        table.hear(table.links[1], wire.chunk(mark, offset, bytes(4)))
    assert table.core.reports.counts == {"short-piece": 1, "stray": 99}
    assert table.core.reassembly.get(table.links[1]).got == 0
    table.hear(table.links[1], *list(chunked(body, 64))[1:])
    table.hear("from 2", table.body(2, 0))
    assert [*table.ended[-1].bodies] == [1, 2]


# -- the log -------------------------------------------------------------------------------------------------------


def test_after_thousands_of_junk_links_a_neighbors_nan_is_still_logged_and_the_log_is_short():
    table = ring()
    for number in range(5000):
        table.hear(f"junk {number}", [b"\xff\x00junk"])
    lines = table.events("message-dropped")
    assert len(lines) <= 256
    assert "further ones are only counted" in lines[-1].message
    assert table.core.reports.counts == {"malformed": 5000}
    table.do(table.core.left_out(1, "not-finite", table.now))
    said = table.events("message-dropped")[-1]
    assert said.fields == {"reason": "not-finite", "neighbor": 1}


NASTY = "a\r\nb\x1b[2J\x07c\u202e"


def test_no_word_of_others_reaches_the_log_with_control_characters():
    table = ring()
    fields = table.hello(1).model_dump() | {"fingerprint": {NASTY: NASTY, **table.fingerprint}}
    strangers = [
        [wire.msgpack.packb({"kind": NASTY, "rank": 1})],
        [wire.msgpack.packb({NASTY: 1})],
        [wire.msgpack.packb(fields)],
        [wire.msgpack.packb(fields | {"manifest": {NASTY: 1}, "fingerprint": table.fingerprint})],
        [wire.msgpack.packb(fields | {"digest": NASTY, "fingerprint": table.fingerprint})],
        [NASTY.encode()],
    ]
    for number, message in enumerate(strangers):
        table.hear(f"stranger {number}", message)
        table.hear("from 2", message)
    assert any("?" in said.message for said in table.said)
    for said in table.said:
        assert said.message.isprintable(), said.message
        assert all(str(value).isprintable() for key, value in said.fields.items() if key != "traceback")


def test_what_ends_a_peer_is_printable_too():
    table = Table(dialled=[1])
    table.established(1)
    table.do(table.core.wait("meet", 0, table.now))
    table.hear(table.links[1], table.hello(1, fingerprint={NASTY: NASTY}))
    table.wait(10)
    (failed,) = [one.error for one in table.ended if isinstance(one, Fail)]
    assert str(failed).isprintable()


def test_the_clock_is_not_asked_for_in_vain_while_a_peer_is_about_to_leave():
    """The next look is never due already, or the driver would turn without end."""
    table = Table(dialled=[1], wait=5.0, remind_every=2.0, refused_after=100.0)
    table.established(1)
    table.do(table.core.wait("meet", 0, table.now))
    table.hear(table.links[1], table.hello(1, fingerprint={"size": 4}))
    for _ in range(20):
        table.wait(1)
        assert table.core.next_tick(table.now) > table.now
