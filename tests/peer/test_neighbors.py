"""What a core decides about neighbors that fall silent, hang, go away or are ahead."""

import pytest

from dpeer.exceptions import LeftBehind, Refused
from dpeer.peer.core import wire
from dpeer.peer.core.effects import Fail, Wake
from dpeer.peer.peer import dialled
from tests.peer.table import Table, chunked, ring

# -- a connection that died without notice -----------------------------------------------------------------------------


def test_a_neighbor_that_is_dialled_again_gets_what_it_lacks_and_rounds_go_on_with_it():
    table = ring()
    table.runs(0)
    assert table.kinds(table.links[1]) == ["body"] + ["chunk"] * 7
    table.hear("from 2", table.body(2, 0))
    table.wait(15, meanwhile=lambda: table.hear("from 2", table.beat(2, 0)))
    (delivered,) = table.ended
    assert [*delivered.bodies] == [2]
    table.established(1)
    assert "hello" in table.kinds(table.links[1])
    table.hear(table.links[1], table.hello(1, 0, reply=True))
    assert table.status(1) == "alive"
    assert table.kinds(table.links[1])[0] == "body", "the body of its round, which it may have got or not"
    table.runs(1)
    table.hear("from 2", table.body(2, 1))
    assert table.ended == [delivered], "it is waited for again"
    table.hear(table.links[1], table.body(1, 0), table.body(1, 1))
    assert [*table.ended[-1].bodies] == [1, 2]


@pytest.mark.parametrize("over", ["before its goodbye", "after its goodbye", "not yet"])
@pytest.mark.parametrize("reason", ["done", "stopped", "failed"])
def test_one_that_is_done_is_dialled_no_more_once_this_peer_is_done_too(reason, over):
    """Another run may listen at its address by then; before, an operator may let it in again."""
    table = ring(rounds=1)
    link = table.links[1]
    if over == "before its goodbye":
        table.do(table.core.wait("linger", 1, table.now))
    table.hear(link, table.goodbye(1, reason))
    if over == "after its goodbye":
        table.do(table.core.wait("linger", 1, table.now))
    assert table.closed == ([link] if reason == "done" and over != "not yet" else [])
    table.wait(100)
    assert (table.links[1] == link) is (reason == "done"), "one that was stopped or has failed may come back"


# -- a peer that was left behind ---------------------------------------------------------------------------------------


def left_behind(rounds=9, there=6, **config):
    """A peer in round 0 whose neighbors are in another one."""
    table = ring(rounds=rounds, **config)
    table.do(table.core.begin(0, table.now))
    for link, rank in ((table.links[1], 1), ("from 2", 2)):
        table.hear(link, table.beat(rank, there))
    return table


def sits_out(table, number):
    """The round loop lets a round go by; the bodies that it is given for adoption, or None if it waits."""
    table.do(table.core.begin(number, table.now))
    assert table.core.behind(number)
    table.do(table.core.release(number, None, table.now))
    before = len(table.ended)
    table.do(table.core.wait("collect", number, table.now))
    return dict(table.ended[-1].bodies) if len(table.ended) > before else None


def announced(table, link):
    """The round in which the peer takes part again, by its last heartbeat on a link."""
    return [message.enters for message in table.written(link) if message.kind == "heartbeat"][-1]


def test_a_peer_that_was_left_behind_sits_out_adopts_and_enters_in_the_round_that_it_has_announced():
    table = left_behind()
    for number in range(5):
        assert sits_out(table, number) == {}
    assert announced(table, "from 2") == 9, "as if it never came: it does not know yet when"
    assert sits_out(table, 5) == {}
    assert sits_out(table, 6) is None, "its neighbors are in this round: it waits for their bodies"
    assert announced(table, "from 2") == 7
    table.hear(table.links[1], table.body(1, 6))
    table.hear("from 2", table.body(2, 6))
    assert [*table.ended[-1].bodies] == [1, 2]
    table.core.entry.adopt(6)
    table.do(table.core.begin(7, table.now))
    assert not table.core.behind(7)
    assert table.core.entry.left_behind == 7
    table.do(table.core.look(table.now))
    assert [expected.level for expected in table.events("left-behind")] == ["warning"]
    (caught_up,) = table.events("caught-up")
    assert "sat out rounds 1 to 7, and goes on with the others, with the mean of its neighbors' bodies" in (
        caught_up.message
    )
    assert "body" not in table.kinds(table.links[1])
    table.do(table.core.tick(table.now + 1))
    assert announced(table, "from 2") == 7
    table.do(table.core.begin(8, table.now))
    assert not table.core.behind(8)
    table.do(table.core.tick(table.now + 1))
    assert announced(table, "from 2") == 0


def test_of_a_round_that_was_sat_out_no_neighbor_needs_a_body():
    table = left_behind(there=6)
    table.hear(table.links[1], table.beat(1, 6), table.hello(1, 0), table.beat(1, 0, enters=1))
    for number in range(2):
        assert sits_out(table, number) == {}
    table.do(table.core.wait("settle", 1, table.now))
    assert table.ended[-1] == Wake(), "though rank 1 would be waited for from round 1 on"


def test_a_neighbor_that_was_left_behind_hears_each_round_of_the_others_whose_bodies_wait_for_it():
    table = ring(rounds=9)
    table.hear("from 2", table.goodbye(2, "failed"))
    for number in range(5):
        if number == 3:
            table.hear("from 2", table.hello(2, 0))
        table.written("from 2")
        table.runs(number)
        table.hear(table.links[1], table.body(1, number))
    assert [(message.kind, message.round) for message in table.written("from 2")] == [("heartbeat", 4)]


def test_one_that_comes_back_when_all_others_have_ended_waits_for_none_of_them():
    table = Table(dialled=[1], rounds=9, start=3)
    table.established(1)
    table.do(table.core.wait("meet", 0, table.now))
    table.hear(table.links[1], table.hello(1, 9, reply=True, presence=[3, 9, 9]))
    assert isinstance(table.ended[0], Wake)
    assert not table.core.waiting.holds(3), "one is there, with the last bodies"
    table.hear(table.links[1], table.goodbye(1, "done"))
    assert table.core.waiting.holds(3)
    table.do(table.core.wait("pause", 3, table.now))
    assert isinstance(table.ended[1].error, LeftBehind)


# -- what is not kept --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["dead", "goodbye", "broken"])
def test_of_one_that_is_away_no_half_of_a_body_is_kept(way):
    table = ring()
    table.runs(0)
    body = table.body(1, 0, 7.0)
    table.hear(table.links[1], *list(chunked(body, 64))[:3])
    assert len(table.core.reassembly) == 1
    if way == "goodbye":
        table.hear(table.links[1], table.goodbye(1, "failed"))
    elif way == "broken":
        table.breaks(table.links[1])
    else:
        table.wait(15)
    assert len(table.core.reassembly) == 0


def test_another_protocol_is_refused_by_both_numbers():
    table = Table(dialled=[1])
    table.established(1)
    later = table.hello(1).model_copy(update={"protocol": wire.PROTOCOL + 1})
    expected = {**later.model_dump(), "what a later version adds": 1}
    table.hear(table.links[1], [wire.msgpack.packb(expected)])
    table.do(table.core.wait("meet", 0, table.now))
    table.wait(10)
    failed = [one.error for one in table.ended if isinstance(one, Fail)]
    assert isinstance(failed[0], Refused)
    assert f"protocol: {wire.PROTOCOL} here, {wire.PROTOCOL + 1} at rank 1: install a later dpeer here" in str(
        failed[0]
    )


def test_a_neighbor_that_a_leaving_peer_meets_hears_its_goodbye_after_the_answer():
    table = Table(dialled=[1], rounds=9)
    table.established(1)
    table.do(table.core.leave("stopped", table.now, 60))
    table.hear("from 2", table.hello(2, 0))
    assert table.kinds("from 2") == ["hello", "heartbeat", "goodbye"]


# -- a relay -----------------------------------------------------------------------------------------------------------


TCP, RELAY = "tcp://host:1", "relay://host:1"


@pytest.mark.parametrize(
    ("own", "other", "dials"),
    [(TCP, TCP, True), (RELAY, RELAY, True), (None, RELAY, True), (RELAY, None, False), (RELAY, TCP, True),
     (TCP, RELAY, False), (TCP, None, False), (None, TCP, True)],
)  # fmt: skip
def test_a_relay_is_used_where_neither_end_can_be_dialled_and_exactly_one_end_dials(own, other, dials):
    addresses = {rank: one for rank, one in ((1, own), (2, other)) if one is not None}
    assert dialled(1, (2,), addresses) == ({2: other} if dials else {})
    assert dialled(2, (1,), addresses) == ({} if dials else {1: own})


@pytest.mark.parametrize("back", [True, False])
def test_after_its_last_round_a_peer_stays_for_a_neighbor_that_has_announced_its_return(back):
    table = ring(rounds=1)
    table.runs(0)
    table.hear(table.links[1], table.body(1, 0))
    table.hear("from 2", table.body(2, 0))
    goodbye = table.goodbye(2, "stopped").model_copy(update={"back_within": 100})
    table.hear("from 2", goodbye)
    table.do(table.core.wait("linger", 1, table.now))
    table.hear(table.links[1], table.beat(1, 1), table.goodbye(1, "done"))
    before = len(table.ended)
    table.wait(99)
    assert len(table.ended) == before
    if not back:
        table.wait(2)
        assert table.ended[before:] == [Wake()]
        return
    table.hear("new from 2", table.hello(2, 0))
    assert "body" in table.kinds("new from 2"), "which it had not used before it left"
    assert len(table.ended) == before
    table.hear("new from 2", table.beat(2, 1))
    assert table.ended[before:] == [Wake()]
