"""Which side goes on after a cut: the table of completed rounds, what a quorum has completed, and pauses."""

import numpy as np
import pytest

from dpeer.exceptions import Isolated as EndsIsolated
from dpeer.exceptions import ProtocolError
from dpeer.peer.core.effects import Fail, Wake
from dpeer.peer.core.round_clock import RoundClock
from dpeer.topology import Isolated, build
from tests.peer.conftest import from_edges
from tests.peer.table import Table, ring

ROUNDS = 100


def table(*rounds):
    return np.array(rounds, "<i8").astype("<i4").tobytes()


def presence(rank, *rounds, quorum="majority"):
    found = RoundClock(rank, len(rounds), ROUNDS, quorum)
    found.merge(table(*rounds))
    found.reached(rank, rounds[rank])
    return found


# -- the table ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds", "quorum"),
    [
        ([7], 7),
        ([7, 3], 7),  # half of them, with the lowest rank
        ([3, 7], 3),
        ([5, 9, 2], 5),
        ([9, 9, 2, 2], 9),
        ([2, 9, 2, 9], 2),
        ([2, 9, 9, 9], 9),
        ([5, 1, 9, 1], 5),
        ([ROUNDS, 4, 4, 7], 4),  # rank 1 is the lowest that is not done
        ([ROUNDS, 4, 7, 7], 7),
        ([ROUNDS, ROUNDS], ROUNDS),
        ([0, 0, 5, 5, 5, 5, 0], 5),
    ],
)
def test_a_quorum_is_more_than_half_or_half_with_the_lowest_that_is_not_done(rounds, quorum):
    assert presence(0, *rounds).quorum == quorum


def test_entries_only_rise_and_no_other_peer_raises_ones_own():
    one = presence(1, 4, 5, 6)
    assert not one.merge(table(3, 9, 6))
    assert one.merge(table(4, 9, 7))
    assert [one[rank] for rank in range(3)] == [4, 5, 7]
    assert not one.reached(0, 3)
    assert one[0] == 4


@pytest.mark.parametrize("bad", [b"x", table(2**31, 0, 0)])
def test_what_is_no_table_is_malformed(bad):
    one = presence(0, 4, 5, 6)
    with pytest.raises(ProtocolError):
        one.merge(bad)
    assert one.table == table(4, 5, 6)


@pytest.mark.parametrize(
    ("other", "known"), [((1, 7), (4, 7, 6)), ((1, 2, 7, 8), (4, 5, 7)), ((1, 10**6), (4, ROUNDS, 6))]
)
def test_of_another_table_what_this_peer_knows_of_is_taken(other, known):
    one = presence(0, 4, 5, 6)
    one.merge(table(*other))
    assert one.table == table(*known)


# -- the start ---------------------------------------------------------------------------------------------------------


def numbers(quorum, *rounds):
    """What a quorum of so many ranks has completed, by counting."""
    return max(most for most in range(ROUNDS + 1) if sum(one >= most for one in rounds) >= quorum)


@pytest.mark.parametrize("quorum", [3, 4, 5])
@pytest.mark.parametrize("rounds", [(0, 0, 0, 0, 0), (9, 1, 7, 3, 3), (ROUNDS, ROUNDS, ROUNDS, 4, 7)])
def test_a_number_of_ranks_is_a_quorum(quorum, rounds):
    assert presence(0, *rounds, quorum=quorum).quorum == numbers(quorum, *rounds)


def test_who_has_been_there_spreads_with_the_table_and_stays():
    one, other = RoundClock(0, 4, ROUNDS), RoundClock(2, 4, ROUNDS)
    one.reached(0, 0)
    other.reached(2, 0)
    assert (one.there, one.absent) == ([0], [1, 2, 3])
    assert one.merge(other.table)
    assert one.adds_to(table(0, -1, -1, -1))
    assert (one.there, one[3], one.started) == ([0, 2], 0, False)
    assert not one.merge(table(-1, -1, -1, -1))
    one.merge(table(0, 0, 0, 0))
    assert (one.absent, one.assembled) == ([], True)


@pytest.mark.parametrize(("quorum", "enough"), [("majority", 4), ("any", 4), (3, 3), (4, 4)])
def test_all_ranks_or_as_many_as_were_asked_for_are_enough_to_start(quorum, enough):
    clock = RoundClock(0, 4, ROUNDS, quorum)
    found = [clock.reached(rank, 0) and clock.started for rank in range(4)]
    assert found == [count >= enough for count in range(1, 5)]


def test_a_round_that_some_rank_has_completed_shows_that_the_start_was_agreed():
    clock = RoundClock(0, 4, ROUNDS)
    clock.merge(table(-1, 1, -1, -1))
    assert clock.started
    assert not clock.assembled


# -- who goes on -------------------------------------------------------------------------------------------------------


def test_word_of_others_comes_with_every_kind_of_message():
    peer = ring(topology=build("full", 4), rounds=9)
    peer.hear("from 2", peer.beat(2, 3, presence=[0, 0, 0, 4]))
    assert peer.core.round_clock.table == table(0, 0, 3, 4)
    peer.do(peer.core.begin(2, peer.now))
    peer.do(peer.core.tick(peer.now))
    (beat,) = [one for one in peer.written("from 2") if one.kind == "heartbeat"]
    assert beat.presence == table(2, 0, 3, 4)
    peer.releases(2)
    assert peer.core.exchange.outbox[2].frames[0].count(table(2, 0, 3, 4)) == 1


def runs_alone(peer, number):
    """The peer begins a round whose bodies do not come: its neighbors are away."""
    peer.runs(number)
    assert peer.ended.pop().bodies == {}


def alone(**options):
    """A peer whose neighbors have both died, which has run a round without them."""
    peer = ring(rounds=9, **options)
    peer.wait(16)
    assert [peer.status(rank) for rank in (1, 2)] == ["dead", "dead"]
    assert not peer.core.waiting.holds(0)
    runs_alone(peer, 0)
    peer.do(peer.core.begin(1, peer.now))
    return peer


@pytest.mark.parametrize("quorum", ["majority", "any"])
def test_a_peer_that_has_mixed_nothing_pauses_until_a_neighbor_is_heard(quorum):
    peer = alone(quorum=quorum)
    assert peer.core.waiting.holds(1)
    peer.do(peer.core.wait("pause", 1, peer.now))
    assert "cut off from all neighbors" in peer.events("paused")[0].message
    peer.wait(60)
    assert peer.ended == []
    peer.hear("from 2", peer.hello(2, 0))
    assert peer.ended == [Wake()]
    assert not peer.core.waiting.holds(1)
    assert peer.core.waiting.pauses == [60]


def test_a_pause_ends_the_run_after_the_time_to_wait():
    peer = alone(wait=100.0)
    peer.do(peer.core.wait("pause", 1, peer.now))
    peer.wait(99)
    assert peer.ended == []
    peer.wait(1)
    (end,) = peer.ended
    assert isinstance(end, Fail)
    assert isinstance(end.error, EndsIsolated)
    assert end.error.exit_code == 3
    assert "cut off from all neighbors for 100 s (--wait)" in str(end.error)


def test_a_paused_neighbor_that_lacks_news_gets_it_at_once():
    peer = ring(rounds=9)
    peer.hear(peer.links[1], peer.beat(1, 4))
    peer.written("from 2")
    peer.hear("from 2", peer.beat(2, 4, presence=[0, 4, 4], paused=True))
    assert peer.written("from 2") == []
    peer.hear("from 2", peer.beat(2, 4, presence=[0, 2, 4], paused=True))
    assert [one.kind for one in peer.written("from 2")] == ["heartbeat"]


def test_a_peer_whose_neighbors_are_done_without_it_ends_with_its_rounds():
    peer = alone()
    for link, rank in ((peer.links[1], 1), ("from 2", 2)):
        peer.hear(link, peer.hello(rank, 9), peer.goodbye(rank, "done"))
    assert peer.core.waiting.holds(1)
    peer.do(peer.core.wait("pause", 1, peer.now))
    assert isinstance(peer.ended[0].error, EndsIsolated)
    assert "completed the run without this peer" in str(peer.ended[0].error)


def test_a_peer_whose_neighbor_is_done_runs_the_rounds_that_it_has_by_itself():
    """Its neighbor had used this round's body of an earlier process, so none came back; no round has an edge left."""
    peer = Table(1, from_edges(2, [(0, 1)], []), rounds=3, start=0)
    peer.hear("from 0", peer.hello(0, 2, presence=[2, 0]))
    peer.runs(0)
    assert peer.ended.pop().bodies == {}
    peer.do(peer.core.begin(1, peer.now))
    assert not peer.core.waiting.holds(1), "the neighbor is there"
    peer.hear("from 0", peer.goodbye(0, "stopped"))
    assert peer.core.waiting.blocked(1) == "cut off from all neighbors"
    peer.hear("again from 0", peer.hello(0, 2), peer.goodbye(0, "done"))
    assert not peer.core.waiting.holds(1)


def test_a_peer_that_has_mixed_nothing_waits_for_a_returner_to_come_as_far():
    """Rank 0 is the lower one of two that are not done, and so a quorum by itself: it would run all rounds alone."""
    peer = Table(0, from_edges(2, [(0, 1), (1, 0)]), rounds=30, start=9)
    peer.hear("from 1", peer.hello(1, 3, presence=[9, 3]), peer.beat(1, 3, presence=[9, 3], enters=12))
    peer.runs(9)
    assert peer.ended.pop().bodies == {}, "a returner gives none"
    assert peer.core.waiting.blocked(10) == "cut off from all neighbors"
    peer.hear("from 1", peer.beat(1, 9, presence=[9, 9], enters=12))
    assert peer.core.waiting.blocked(10) is None


def test_a_returner_that_waits_for_longer_than_wait_for_a_neighbor_that_is_there_is_not_due_for_ever():
    """Its clock would stand still, and the neighbor's word never be read."""
    peer = ring(rounds=30, start=3, wait=10.0)

    def others():
        for rank, link in ((1, peer.links[1]), (2, "from 2")):
            peer.hear(link, peer.beat(rank, 5))

    others()
    for number in (3, 4, 5):
        peer.do(peer.core.begin(number, peer.now))
        assert peer.core.behind(number)
        peer.do(peer.core.wait("collect", number, peer.now))
    peer.wait(12, others)
    assert len(peer.ended) == 2, "rounds 3 and 4 are over"
    assert peer.core.next_tick(peer.now) > peer.now


def test_without_neighbors_nothing_pauses():
    peer = Table(topology=Isolated(3), rounds=9)
    for number in range(9):
        assert not peer.core.waiting.holds(number)
        peer.runs(number)
