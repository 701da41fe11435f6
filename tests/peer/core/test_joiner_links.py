"""Links of a peer that joins: it dials all its contacts, and as a member is dialled by those that have to."""

from dpeer.exceptions import PeersMissing
from dpeer.peer.core.effects import Keep
from dpeer.peer.core.epoch import EpochGraph, EpochSetup, Member, SignedEpoch, first_epoch, operator_of, successor
from dpeer.topology import Relabeled, build
from tests.peer.table import Table

SECRET = bytes(range(32))
GRAPH = EpochGraph(settings={"topology": "ring"}, edges="0" * 16)
FIRST = first_epoch("0" * 64, size=3, operators=[operator_of(SECRET)], signers=1, graph=GRAPH, rounds=40)
SECOND = successor(FIRST, begins=8, graph=GRAPH, join={3: Member(address="tcp://host:3")})
ADDRESSES = {rank: f"tcp://host:{rank}" for rank in range(3)}


def members():
    """Rank 0 of a ring of three that can change; all have shaken hands."""
    setup = EpochSetup(FIRST, lambda epoch: Relabeled(build("ring", len(epoch.members)), epoch.ranks))
    table = Table(dialled=[1, 2], rounds=40, epochs=setup)
    table.core.epochs.addresses = dict(ADDRESSES)
    for rank in (1, 2):
        table.established(rank)
        table.hear(table.links[rank], table.hello(rank, reply=True))
    return table


def accepts(table):
    """An epoch by which rank 3 joins is accepted, and on disk."""
    refused, effects = table.core.hand(SignedEpoch(epoch=SECOND).signed_with(SECRET).encode(), table.now)
    assert refused is None
    (keep,) = [one for one in effects if isinstance(one, Keep)]
    table.do(effects)
    table.do(table.core.kept(keep.record, table.now))


def with_a_joiner():
    """Such a peer that has accepted an epoch by which rank 3 joins, and is in the round before it."""
    table = members()
    accepts(table)
    table.hear("from 3", table.hello(3))
    table.do(table.core.begin(SECOND.begins - 1, table.now))
    return table


def test_a_joiner_that_has_dialled_this_peer_is_dialled_once_its_link_is_broken():
    table = with_a_joiner()
    table.wait(1)
    assert table.status(3) == "alive"
    assert 3 not in table.links, "one link is enough"
    table.breaks("from 3")
    table.wait(1)
    assert 3 in table.links
    first = table.links[3]
    table.wait(5)
    assert table.links[3] == first, "once"


def test_a_joiner_that_is_silent_is_dialled_once_it_is_dead():
    table = with_a_joiner()
    table.wait(14)
    assert 3 not in table.links
    table.wait(2)
    assert table.status(3) == "dead"
    assert 3 in table.links


def test_the_link_of_a_contact_that_has_to_dial_this_peer_ends_when_it_breaks():
    """Both would dial each other for ever."""
    setup = EpochSetup(FIRST, lambda epoch: Relabeled(build("ring", len(epoch.members)), epoch.ranks))
    table = Table(rank=3, topology=build("ring", 3), rounds=40, epochs=setup)
    epochs = table.core.epochs
    epochs.addresses = {**ADDRESSES, 3: "tcp://host:3"}
    assert epochs.to_dial() == ADDRESSES
    assert epochs.is_to_dial(0)
    table.do(table.core.dialled(0, "to 0", table.now))
    table.do(table.core.connected("to 0", table.now))
    table.hear("to 0", table.hello(0, reply=True))
    table.wait(1)
    assert not table.closed, "it is a contact"
    epochs.contacts.clear()
    table.wait(1)
    assert not table.closed, "the link is there"
    table.breaks("to 0")
    table.wait(1)
    assert table.closed == ["to 0"]


def test_a_joiner_whose_hello_came_before_its_epoch_hears_one_as_soon_as_that_is_accepted():
    """Until then it is a stranger, and takes the answer to its hello for a handshake."""
    table = members()
    table.hear("from 3", table.hello(3))
    assert table.core.drops.counts == {"not-a-neighbor": 1}
    assert table.kinds("from 3") == ["hello"], "the answer"
    accepts(table)
    (hello,) = table.written("from 3")
    assert hello.kind == "hello"
    assert not hello.reply
    table.hear("from 3", table.hello(3, reply=True))
    assert table.status(3) == "alive"
    assert table.core.members[3].link == "from 3"


def test_a_joiner_that_appears_late_has_come_and_one_that_was_lost_is_back():
    table = members()
    accepts(table)
    table.do(table.core.begin(SECOND.begins - 1, table.now))
    table.hear("from 3", table.hello(3))
    (line,) = table.events("neighbor-came")
    assert line.message == "rank 3 has come: it is used once it has caught up"
    table.wait(40, lambda: [table.hear(table.links[rank], table.beat(rank, 0)) for rank in (1, 2)])
    assert table.status(3) == "dead"
    table.hear("again from 3", table.hello(3))
    assert len(table.events("neighbor-came")) == 1
    assert [one.fields["neighbor"] for one in table.events("neighbor-back")] == [3]


def joining(rank):
    """A joiner, which dials the members of the first epoch."""
    setup = EpochSetup(FIRST, lambda epoch: Relabeled(build("ring", len(epoch.members)), epoch.ranks))
    table = Table(rank=rank, rounds=40, epochs=setup)
    table.core.epochs.addresses = dict(ADDRESSES)
    table.do(table.core.open(list(table.core.epochs.to_dial()), 0, table.now))
    return table


def test_a_joiner_whose_key_no_member_takes_names_what_it_waits_for():
    table = joining(3)
    table.do(table.core.unreachable(table.links[0], "it does not take the key: start it again", 0.0, unlisted=True))
    table.do(table.core.unreachable(table.links[1], "connection refused", 0.0))
    assert [one.message for one in table.events("neighbor-unreachable")] == [
        "rank 0 cannot be dialled: it does not take the key of this peer yet: have an operator let it in, with the key "
        "that belongs to this peer's secret (dpeer join RUN --rank 3 --key HEX); trying again",
        "rank 1 cannot be dialled: connection refused; trying again",
    ]


def test_neighbors_that_were_silent_for_long_have_one_dialled_link_each():
    """Of two links, each new connection ends the other one's, where keys show whose they are: without end."""
    table = with_a_joiner()
    opened = []
    for _ in range(100):
        table.wait(1)
        opened += [link for link in table.links.values() if link not in opened]
        ranks = [dialled.rank for _, dialled in table.core.connection_setup.dialling.all()]
        assert sorted(ranks) == sorted({*ranks})
    assert {*opened} - {*table.closed} == {*table.links.values()}
    assert len(opened) > 6, "they were dialled anew"


def test_a_member_that_is_done_says_so_to_a_joiner_that_no_epoch_lists():
    for reason, kinds in (("done", ["goodbye"]), ("stopped", [])):
        table = members()
        table.hear("from 3", table.hello(3))
        table.hear("from 4", table.hello(4))
        table.kinds("from 3")
        table.breaks("from 4")
        table.do(table.core.leave(reason, table.now))
        assert (table.kinds("from 3"), table.kinds("from 4")) == (kinds, [])


def waiting_for_an_epoch():
    """A joiner whom ranks 0 and 1 have answered; it has not met rank 2."""
    table = joining(3)
    table.do(table.core.meet(table.now))
    for rank in (0, 1):
        table.established(rank)
        table.hear(table.links[rank], table.hello(rank, reply=True))
    return table


def test_a_joiner_that_no_epoch_lists_ends_once_members_are_done_and_none_is_there():
    table = waiting_for_an_epoch()
    table.hear(table.links[0], table.goodbye(0, "done"))
    assert table.ended == [], "rank 1 is there"
    table.hear(table.links[1], table.goodbye(1, "stopped"))
    (end,) = table.ended
    assert str(end.error) == (
        "the federation has ended, and no epoch lists rank 3: an operator lets a peer in while the members train "
        "(dpeer join RUN --rank 3)"
    )
    assert isinstance(end.error, PeersMissing)


def test_a_joiner_waits_on_where_members_have_stopped():
    table = waiting_for_an_epoch()
    for rank in (0, 1):
        table.hear(table.links[rank], table.goodbye(rank, "stopped"))
    assert table.ended == [], "they may come back, and let it in"
    assert table.core.waiting.present(table.now).ranks.keys() == {0, 1, 2}


def test_lines_of_a_joiner_that_waits_grow_rarer_whatever_rounds_the_members_complete():
    table = waiting_for_an_epoch()
    number = 0

    def rounds_go_on():
        nonlocal number
        number += 1
        for rank in (0, 1):
            table.hear(table.links[rank], table.beat(rank, number, presence=[number] * 3))

    table.wait(100, rounds_go_on)
    assert len(table.events("waiting")) == 4, "after 10, 20, 40 and 80 seconds"
