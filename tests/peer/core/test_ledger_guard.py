"""When a lost ledger or an older folder ends a private peer, when it warns only, and when neither."""

import pytest

from dpeer.peer.core import wire
from dpeer.peer.core.effects import Fail
from tests.peer.table import Table, ring


def test_where_others_remember_a_rank_that_protects_its_data_and_has_no_ledger_it_does_not_begin():
    table = Table(dialled=[1], rounds=9, unrecorded=True)
    table.established(1)
    table.do(table.core.meet(table.now))
    table.hear(table.links[1], table.hello(1, 6, reply=True, presence=[0, 6, 6]))
    assert table.ended == [], "a new peer"
    table.hear("from 2", table.hello(2, 6, presence=[4, 6, 6]))
    assert str(table.ended[0].error) == (
        "the others know 4 rounds of rank 0, and its folder has no ledger of them: put its folder 'privacy' back as it "
        "was last, or give --new-data if it trains on other data now"
    )
    assert table.ended[0].error.exit_code == 2


def test_a_neighbor_that_holds_a_body_of_a_rank_without_a_ledger_ends_that_rank():
    table = Table(dialled=[1], rounds=9, unrecorded=True)
    table.established(1)
    table.do(table.core.meet(table.now))
    table.hear(table.links[1], table.hello(1, 0, reply=True, holds=wire.holding({b"a" * 16: 40})))
    assert str(table.ended[0].error) == (
        "rank 1 holds a body of rank 0, and its folder has no ledger of that: put its folder 'privacy' back as it was "
        "last, or give --new-data if it trains on other data now"
    )


def test_neighbors_that_recall_rounds_of_a_rank_from_their_disks_end_it_where_it_has_no_ledger():
    table = Table(dialled=[1], rounds=9, unrecorded=True)
    table.established(1)
    table.do(table.core.meet(table.now))
    table.hear(table.links[1], table.hello(1, 6, reply=True, presence=[-1, 6, -1], recalls=4))
    assert "the others know 4 rounds of rank 0" in str(table.ended[0].error)


def test_a_private_peer_without_an_earlier_ledger_goes_on_where_neighbors_hold_what_it_has_released():
    table = ring(rounds=9, unrecorded=True)
    table.runs(0)
    table.hear("from 2", table.hello(2, 0, holds=wire.holding({b"a" * 16: 40})))
    assert table.ended == []


def test_of_a_lost_ledger_that_is_heard_of_after_a_release_a_peer_warns_once():
    """Any member may write it into its tables: it would end a peer that trains."""
    table = ring(rounds=9, unrecorded=True)
    table.runs(0)
    table.runs(1)
    table.do(table.core.begin(2, table.now))
    table.do(table.core.collect(2, table.now))
    table.hear("from 2", table.beat(2, 2, presence=[2, 2, 2]))
    assert table.events("ledger") == []
    for rounds in (3, 4):
        table.hear("from 2", table.beat(2, 2, presence=[rounds, 2, 2]))
    assert table.ended == []
    (warning,) = table.events("ledger")
    assert "the others know 3 rounds of rank 0" in warning.message


def test_a_lost_ledger_ends_a_peer_that_has_sat_rounds_out_and_released_nothing():
    table = ring(rounds=9, unrecorded=True)
    table.do(table.core.begin(0, table.now))
    table.do(table.core.collect(0, table.now))
    table.hear("from 2", table.beat(2, 0, presence=[3, 0, 0]))
    assert "the others know 3 rounds of rank 0" in str(table.ended[0].error)


def test_an_older_folder_of_a_rank_that_was_put_back_from_a_backup_does_not_begin():
    """Its disk was thought to be lost, and turns up again; each return is on disk before a neighbor hears of it."""
    table = Table(dialled=[1], rounds=9, start=4, resume=True, protects=True)
    table.core.entry.incarnation = 1
    table.established(1)
    table.do(table.core.meet(table.now))
    table.hear(table.links[1], table.hello(1, 6, reply=True, remembers=1))
    assert table.ended == []
    table.hear("from 2", table.hello(2, 6, remembers=2))
    assert str(table.ended[0].error) == (
        "another folder of rank 0 has taken part since (a backup that was put back?): the others know its return "
        "number 2, and this folder 1; go on with that one, for what it released is not in this one's ledger"
    )


@pytest.mark.parametrize("other", [{"restored": True}, {"protects": False}, {"resume": False}, {"start": 0}])
def test_an_older_folder_begins_if_it_is_restored_not_private_or_of_a_new_run(other):
    table = Table(**{"dialled": [1], "rounds": 9, "start": 4, "resume": True, "protects": True, **other})
    table.established(1)
    table.do(table.core.meet(table.now))
    table.hear(table.links[1], table.hello(1, 6, reply=True, remembers=2))
    table.hear("from 2", table.hello(2, 6, remembers=2))
    assert not any(isinstance(one, Fail) for one in table.ended)
