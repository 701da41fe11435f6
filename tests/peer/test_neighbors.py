"""What a core decides about neighbors that fall silent, hang, go away or are ahead."""

import pytest

from dpeer.exceptions import Refused
from dpeer.peer.core import wire
from dpeer.peer.core.chunking import chunked
from dpeer.peer.core.effects import Fail, Wake
from tests.peer.table import Table, payload, ring

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


def test_one_that_is_done_is_not_dialled_again():
    table = ring()
    table.hear(table.links[1], table.goodbye(1, "done"))
    table.wait(100)
    assert not table.closed


# -- a peer that was left behind ---------------------------------------------------------------------------------------


def test_a_peer_that_was_left_behind_sits_out_until_it_has_caught_up():
    table = ring(rounds=9)
    table.do(table.core.begin(0, table.now))
    for link, rank in ((table.links[1], 1), ("from 2", 2)):
        table.hear(link, table.beat(rank, 6))
    behind = [table.core.waiting.behind(number) for number in range(8)]
    assert behind == [True] * 6 + [False] * 2
    assert table.core.waiting.left_behind == 6
    table.do(table.core.look(table.now))
    assert [expected.level for expected in table.events("left-behind")] == ["warning"]
    assert len(table.events("caught-up")) == 1
    table.do(table.core.release(0, None, table.now))
    assert "body" not in table.kinds(table.links[1])


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


# -- what is not kept --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["dead", "goodbye", "broken"])
def test_of_one_that_is_away_no_half_of_a_body_is_kept(way):
    table = ring()
    table.runs(0)
    body = wire.encode(wire.body(table.federation, 1, 0, [payload(7.0, table.learner)]))
    table.hear(table.links[1], *list(chunked(body, 64))[:3])
    assert len(table.core.reassembly) == 1
    if way == "goodbye":
        table.hear(table.links[1], table.goodbye(1, "failed"))
    elif way == "broken":
        table.breaks(table.links[1])
    else:
        table.wait(15)
    assert len(table.core.reassembly) == 0


def test_a_later_version_says_so_and_is_named():
    table = Table(dialled=[1])
    table.established(1)
    later = table.hello(1).model_copy(update={"protocol": wire.CURRENT.newest + 1})
    expected = {**later.model_dump(), "what a later version adds": 1}
    table.hear(table.links[1], [wire.msgpack.packb(expected)])
    table.do(table.core.meet(table.now))
    table.wait(10)
    failed = [one.error for one in table.ended if isinstance(one, Fail)]
    assert isinstance(failed[0], Refused)
    assert f"protocol version: {wire.CURRENT.newest} here, {wire.CURRENT.newest + 1} at rank 1" in str(failed[0])


def test_a_neighbor_whose_answer_comes_after_a_refusal_learns_of_it_and_hears_the_goodbye():
    """It took this peer in when it answered, and would wait for it without end."""
    table = Table(dialled=[1])
    table.established(1)
    table.do(table.core.meet(table.now))
    table.hear("from 2", table.hello(2, fingerprint={**table.fingerprint, "rounds": 6}))
    assert table.written(table.links[1])[0].apart_from is None, "sent before rank 2 came"
    table.hear(table.links[1], table.hello(1, reply=True))
    (failed,) = [effect.error for effect in table.ended if isinstance(effect, Fail)]
    assert "rounds: 5 here, 6 at rank 2" in str(failed)
    table.do(table.core.leave("failed", table.now))
    apart, goodbye = (one for one in table.written(table.links[1]) if one.kind != "heartbeat")
    assert (apart.kind, apart.reply, apart.apart_from) == ("hello", True, 2)
    assert apart.apart_because == "rounds differs", "no value of another peer is passed on"
    assert (goodbye.kind, goodbye.reason) == ("goodbye", "failed")


def test_a_peer_that_is_refused_stays_until_its_other_neighbors_have_met_it():
    table = Table(dialled=[1], farewell=2.5)
    table.established(1)
    table.do(table.core.meet(table.now))
    table.hear("from 2", table.hello(2, fingerprint={"size": 4}))
    table.wait(2)
    assert table.ended == []
    table.wait(1)
    assert isinstance(table.ended[0], Fail)


def test_a_neighbor_that_cannot_train_with_another_is_named_with_the_reason_until_it_is_back():
    table = Table(dialled=[1], remind_every=2.0)
    table.established(1)
    table.do(table.core.meet(table.now))
    table.hear(table.links[1], table.hello(1, reply=True))
    trouble = table.hello(2).model_copy(update={"apart_from": 7, "apart_because": "body_lr differs"})
    table.hear("from 2", trouble, trouble)
    (line,) = table.events("neighbor-trouble")
    assert line.message == (
        "rank 2 says that it cannot train with rank 7: body_lr differs; start these two again with settings that agree"
    )
    assert table.core.members.missing() == [2]
    table.wait(2)
    waiting = "waiting for rank 2 (it cannot train with rank 7: body_lr differs); 2 of 3 have been there"
    assert [line.message for line in table.events("waiting")] == [waiting]
    table.hear("again from 2", table.hello(2))
    table.wait(1)
    assert table.ended == [Wake()]
