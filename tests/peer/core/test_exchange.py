"""When news of rounds that a private peer's folder does not count ends it, when it warns only, and when neither."""

import pytest

from dpeer.peer.config import Counted
from dpeer.topology import build
from tests.peer.table import Table, ring


def private(counted=0, *, start=0, **more):
    """A peer of a ring of three that waits for its neighbors, and whose folder counts so many rounds."""
    table = Table(
        dialled=[1], rounds=19, start=start, counted=None if counted is None else Counted(counted, counted), **more
    )
    table.established(1)
    table.do(table.core.wait("meet", 0, table.now))
    return table


def meets(table, number=0, **said):
    """Both neighbors say hello, the second one with what `said` has."""
    table.hear(table.links[1], table.hello(1, number, reply=True))
    table.hear("from 2", table.hello(2, number, **said))


def refusal(rounds, counted, stated):
    return (
        f"{rounds} may have been released that this folder does not know (it counts {counted} of rank 0): put back a "
        f"newer copy, or state --rounds-released {stated}, which charges them at this run's settings"
    )


def test_a_peer_whose_folder_counts_fewer_rounds_than_others_know_does_not_begin():
    """One that has completed four rounds may have released the fifth."""
    table = private()
    table.hear(table.links[1], table.hello(1, 6, reply=True, presence=[4, 6, 6]))
    assert table.ended == [], "the other neighbor may know of more"
    table.hear("from 2", table.hello(2, 6, presence=[5, 6, 6]))
    assert str(table.ended[0].error) == refusal("6 rounds", 0, 6)
    assert table.ended[0].error.exit_code == 2


def test_a_body_that_a_neighbor_has_shows_a_release_in_a_round_that_was_not_completed():
    table = private(4, start=4)
    meets(table, 4, presence=[4, 4, 4], released=5)
    assert str(table.ended[0].error) == refusal("1 round", 4, 5)


@pytest.mark.parametrize("counted", [5, 9, None])
def test_a_peer_whose_folder_counts_as_many_rounds_begins(counted):
    """None: it protects nothing, or its data are others."""
    table = private(counted, start=4)
    meets(table, 5, presence=[4, 5, 5], released=5)
    assert not hasattr(table.ended[0], "error")


@pytest.mark.parametrize(
    ("presence", "claimed", "stated"),
    [([19, 3, 3], 0, 5), ([0, 3, 3], 19, 5), ([3, 9, 9], 0, 4), ([18, 18, 18], 0, 19)],
)
def test_a_claim_counts_as_far_as_a_quorum_lets_a_peer_come(presence, claimed, stated):
    """Any member may write one; it would have all rounds of the run charged."""
    table = private(2, start=2)
    meets(table, 3, presence=presence, released=claimed)
    assert f"--rounds-released {stated}," in str(table.ended[0].error)


def test_of_two_peers_the_lower_one_may_have_run_without_the_other_whatever_its_own_entry_says():
    table = Table(0, build("full", 2), dialled=[1], rounds=19, start=2, counted=Counted(2, 2))
    table.established(1)
    table.do(table.core.wait("meet", 0, table.now))
    table.hear(table.links[1], table.hello(1, 5, reply=True, presence=[5, 5]))
    assert "--rounds-released 6," in str(table.ended[0].error)


def test_rounds_that_this_process_has_completed_count_as_its_own():
    table = ring(rounds=9, counted=Counted(0, 0))
    table.runs(0)
    table.do(table.core.begin(1, table.now))
    table.hear("from 2", table.beat(2, 1, presence=[1, 1, 1]))
    table.hear("from 2", table.hello(2, 1, released=1))
    assert table.events("ledger") == []


def test_news_that_comes_after_a_body_has_left_is_a_warning_and_said_once():
    """Any member may write it into its tables: it would end a peer that trains."""
    table = ring(rounds=9, counted=Counted(0, 0))
    table.runs(0)
    table.runs(1)
    table.do(table.core.begin(2, table.now))
    table.do(table.core.wait("collect", 2, table.now))
    table.hear("from 2", table.beat(2, 2, presence=[2, 2, 2]))
    assert table.events("ledger") == []
    for rounds in (3, 4):
        table.hear("from 2", table.beat(2, 2, presence=[rounds, 2, 2]))
    assert table.ended == []
    (warning,) = table.events("ledger")
    assert warning.message == (
        f"{refusal('2 rounds', 2, 4)}; until then epsilon counts what this folder's ledger has alone"
    )


def test_news_that_comes_while_the_first_round_trains_ends_it_before_the_body_leaves():
    table = ring(rounds=9, counted=Counted(0, 0))
    table.do(table.core.begin(0, table.now))
    table.hear("from 2", table.beat(2, 0, presence=[3, 0, 0]))
    table.written(table.links[1])
    table.releases(0)
    assert not [message for message in table.written(table.links[1]) if message.kind == "body"]
    table.do(table.core.wait("collect", 0, table.now))
    assert "--rounds-released" in str(table.ended[0].error)


def test_it_ends_a_peer_that_has_sat_rounds_out_and_released_nothing():
    table = ring(rounds=9, counted=Counted(0, 0))
    table.do(table.core.begin(0, table.now))
    table.do(table.core.wait("collect", 0, table.now))
    table.hear("from 2", table.beat(2, 0, presence=[3, 0, 0]))
    assert "--rounds-released" in str(table.ended[0].error)


def test_each_hello_says_of_how_many_rounds_bodies_of_its_receiver_have_come():
    table = ring(rounds=9)
    table.hear("from 2", table.body(2, 0), table.body(2, 1))
    table.breaks("from 2")
    table.hear("new from 2", table.hello(2, 0))
    (answer,) = [message for message in table.written("new from 2") if message.kind == "hello"]
    assert answer.released == 2


def test_rounds_that_were_sat_out_hide_no_release_whose_body_a_neighbor_has():
    """Of the rounds since the copy others knew nothing at first; the neighbor that had their bodies comes back late."""
    table = ring(rounds=9, counted=Counted(6, 2))
    table.do(table.core.begin(6, table.now))
    table.hear("from 2", table.hello(2, 6, presence=[6, 6, 6], released=2))
    table.do(table.core.wait("collect", 6, table.now))
    assert table.ended == []
    table.hear("from 2", table.hello(2, 6, presence=[6, 6, 6], released=4))
    assert str(table.ended[0].error) == refusal("2 rounds", 2, 4)


def test_bodies_that_this_process_sends_are_its_own():
    table = ring(rounds=9, counted=Counted(0, 0))
    table.runs(0)
    table.do(table.core.begin(1, table.now))
    table.releases(1)
    table.hear("from 2", table.hello(2, 1, released=2))
    assert table.events("ledger") == []


# -- bodies that come too late to be mixed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "in_vain"),
    [((2, 2), False), ((6, 2), False), ((6, 6), True)],
    ids=["all may still use it", "one may", "all have gone past it"],
)
def test_a_body_that_no_neighbor_can_use_any_more_is_known_while_it_is_trained(there, in_vain):
    table = ring(rounds=9)
    table.do(table.core.begin(1, table.now))
    table.core.train(1, table.now)
    assert not table.core.lateness.in_vain
    for link, rank, number in ((table.links[1], 1, there[0]), ("from 2", 2, there[1])):
        table.hear(link, table.beat(rank, number))
    assert table.core.lateness.in_vain is in_vain
    if in_vain:
        table.do(table.core.release(1, None, table.now))
    else:
        table.releases(1)
    assert table.core.lateness.late_bodies == 1
    table.do(table.core.begin(2, table.now))
    table.core.train(2, table.now)
    assert table.core.lateness.in_vain is False, "it is found anew for each round"


def test_a_body_is_not_in_vain_while_no_quorum_has_passed_its_round():
    table = ring(rounds=9, quorum=3)
    table.do(table.core.begin(1, table.now))
    table.core.train(1, table.now)
    for link, rank in ((table.links[1], 1), ("from 2", 2)):
        table.hear(link, table.beat(rank, 6))
    assert not table.core.lateness.in_vain


@pytest.mark.parametrize("late_for", [(1, 2), (1,)], ids=["both", "one"])
def test_a_peer_that_is_too_slow_for_all_its_neighbors_is_warned_with_the_remedy(late_for):
    peer = ring(rounds=20)
    for number in range(4):
        peer.do(peer.core.begin(number, peer.now))
        for link, rank in ((peer.links[1], 1), ("from 2", 2)):
            peer.hear(link, peer.beat(rank, number + (rank in late_for)))
        assert peer.events("too-slow") == []
        peer.releases(number)
    if late_for == (1,):
        assert (peer.core.lateness.late_bodies, peer.events("too-slow")) == (0, [])
        return
    (line,) = peer.events("too-slow")
    assert "the last 3 bodies" in line.message
    assert "--round-seconds auto" in line.message
    assert peer.core.lateness.late_bodies == 3  # the first may have been sent by an earlier process
