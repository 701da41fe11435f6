"""Entry of a returner: which round it announces while it catches up, when it comes too late, and where edges change."""

import math

import numpy as np
import pytest

from dpeer.peer.config import LivenessConfig
from dpeer.peer.core.bodies import Inbox
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.returner import Entry
from dpeer.peer.core.schedule import Schedule
from dpeer.topology import build
from tests.peer.conftest import Changing

ROUNDS = 200


class Away:
    """Rank 0 of a federation, which was away; a quorum is where the first of its neighbors is, or `ahead`."""

    def __init__(self, graphs):
        self.members = Membership(graphs.connections(0, ROUNDS), LivenessConfig(heartbeat=1), lambda n: n < self.quorum)
        self.ahead = 0
        self.entry = Entry(Schedule(graphs, 0, ROUNDS), self.members, Inbox(lambda rank, number: None), 1, True, 1.0)

    @property
    def quorum(self):
        return max(self.ahead, *(one.current_round for one in self.members.all()))

    def sits_out(self, number, **there):
        """The round that it announces when it is about to begin round `number`; `there`: where neighbors are."""
        for rank, reached in there.items():
            self.members.greet(int(rank[1:]), f"link {rank}", reached, 0.0)
        assert self.entry.behind(number)
        return self.entry.enters


@pytest.fixture
def ring():
    return Away(build("ring", 8))


@pytest.fixture
def turns():
    """Of four, rank 0 is with rank 1 in even rounds and with rank 2 in odd ones."""
    pairs = np.kron(np.eye(2), np.ones((2, 2))) / 2
    order = [0, 2, 1, 3]
    return Away(Changing(4, lambda number: pairs[np.ix_(order, order)] if number % 2 else pairs))


def test_it_enters_in_the_first_round_that_no_neighbor_has_reached(ring):
    assert ring.sits_out(3, r1=20, r7=19) == 21
    assert [ring.sits_out(number) for number in range(4, 21)] == [21] * 17
    ring.entry.adopt()
    assert not ring.entry.behind(21)


def test_one_that_may_keep_its_own_body_enters_in_the_next_round(turns):
    """It waits for no body before, so rank 2, which is in that round, waits for its body."""
    assert turns.sits_out(8, r1=10, r2=9) == 9
    assert not turns.entry.behind(9)


def test_one_that_has_lost_that_round_too_needs_a_body_and_is_not_too_slow_for_one(ring):
    assert ring.sits_out(3, r1=5, r7=5) == 4
    assert ring.sits_out(4) == 6
    assert ring.sits_out(6, r1=6, r7=6) == 7


def test_bodies_that_come_too_late_put_it_off_by_twice_as_much_each_time(ring):
    """It is with its neighbors, and they are in the next round before it has a body of this one."""
    ring.sits_out(18, r1=20, r7=20)
    entries = [ring.sits_out(20)]
    for _ in range(5):
        entries.append(ring.sits_out(entries[-1], r1=entries[-1], r7=entries[-1]))
    assert entries == [21, 22, 24, 28, 36, 52]


def test_where_edges_change_a_neighbor_far_ahead_counts_in_the_rounds_that_it_shares(turns):
    """Rank 2 is in round 16, which it does not share, and has completed the odd ones before that."""
    assert turns.sits_out(7, r1=10, r2=16) == 16


def test_where_edges_change_a_neighbor_of_a_later_round_puts_it_off_before_that_round(turns):
    """In even rounds it meets rank 1 alone, and would announce a round that rank 2 has completed."""
    turns.sits_out(6, r1=10, r2=9)
    assert turns.sits_out(10, r1=10, r2=13) == 14


def test_what_is_known_of_neighbors_that_are_not_heard_does_not_bring_its_entry_forward(turns):
    """What it knows of rank 1 is from before it was cut off."""
    turns.members.greet(1, "link 1", 8, 0.0)
    turns.members.goodbye(turns.members[1], "failed", 0.0)
    assert turns.sits_out(7, r2=21) == 22
    assert [turns.sits_out(number) for number in range(8, 22)] == [22] * 14


def test_where_edges_change_one_returner_that_it_hears_in_a_round_does_not_put_it_off(turns):
    """Others that take part are heard in the rounds before its entry."""
    turns.sits_out(8, r1=10, r2=10)
    turns.members[1].hops, turns.members[1].enters = 1, 40
    assert turns.sits_out(10, r2=11) == 12


def test_one_that_keeps_up_with_a_neighbor_of_other_rounds_is_not_behind_one_that_has_ended(turns):
    """That one may have passed this round as a returner, and has no body of it."""
    turns.members.greet(1, "link r1", ROUNDS, 0.0)
    turns.members.greet(2, "link r2", ROUNDS - 3, 0.0)
    assert not turns.entry.behind(ROUNDS - 4)


@pytest.mark.parametrize("far", ["ahead", "dead", "on its way"])
def test_one_that_keeps_up_with_none_is_behind_those_that_have_ended(turns, far):
    turns.members.greet(1, "link r1", ROUNDS - 1 if far == "on its way" else ROUNDS, 0.0)
    turns.members.greet(2, "link r2", ROUNDS if far == "ahead" else ROUNDS - 3, 0.0)
    if far == "dead":
        turns.members.give_up(2)
    assert turns.entry.behind(ROUNDS - 4)


@pytest.fixture
def apart():
    """Of four, rank 0 is with rank 1 in even rounds and by itself in odd ones."""
    pairs = np.kron(np.eye(2), np.ones((2, 2))) / 2
    alone = np.kron(np.diag([0.0, 1.0]), np.ones((2, 2)) / 2) + np.diag([1.0, 1.0, 0.0, 0.0])
    return Away(Changing(4, lambda number: alone if number % 2 else pairs))


@pytest.mark.parametrize("adopted", [False, True])
def test_in_a_round_without_neighbors_it_waits_for_those_that_go_on_and_leads_none(apart, adopted):
    assert apart.sits_out(4, r1=10) == 11
    if adopted:
        apart.entry.adopt()

    def over_at(number):
        return apart.entry.over_at(number, False, 0.0, 1.0)

    assert over_at(9) == 1.0, "the neighbor has completed it"
    assert over_at(11) == (1.0 if adopted else math.inf), "it takes part in the next one"
    apart.members.greet(1, "link r1", 12, 0.0)
    assert over_at(11) == 1.0


def test_in_a_round_without_neighbors_among_returners_alone_it_goes_as_far_as_a_quorum_has(apart):
    apart.ahead = 12
    apart.sits_out(8, r1=10)
    apart.members[1].hops = 1
    assert apart.entry.over_at(11, False, 0.0, 1.0) == 1.0
    assert apart.entry.over_at(13, False, 0.0, 1.0) == math.inf


def test_among_returners_alone_it_goes_as_far_as_a_quorum_has_and_no_further(ring):
    """They wait for bodies like itself: each would wait for the other."""
    ring.ahead = 12
    ring.sits_out(8, r1=11, r7=11)
    for rank in (1, 7):
        ring.members[rank].hops = 2
    assert ring.entry.over_at(11, False, 0.0, 1.0) == 1.0
    assert ring.entry.over_at(12, False, 0.0, 1.0) == math.inf
    ring.members[7].asked = 11
    assert ring.entry.over_at(11, False, 0.0, 1.0) == math.inf, "a body that it has asked for may come"
