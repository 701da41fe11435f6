"""Entry of a returner: the round whose bodies it takes, the one that it announces, and for whom it waits."""

import numpy as np
import pytest

from dpeer.peer.config import LivenessConfig
from dpeer.peer.core import wire
from dpeer.peer.core.bodies import Inbox, Received
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.returner import Entry
from dpeer.peer.core.schedule import ListedGraph, Schedule
from dpeer.topology import build
from tests.peer.conftest import Changing

ROUNDS = 200


class Away:
    """Rank 0 of a federation, which was away; a quorum is where the first of its neighbors is, or `ahead`."""

    def __init__(self, graphs, *, shares=True, earliest=0):
        self.members = Membership(graphs.connections(0, ROUNDS), LivenessConfig(heartbeat=1), lambda n: n < self.quorum)
        self.ahead, self.inbox, self.known = 0, Inbox(), {}
        self.entry = Entry(
            Schedule(ListedGraph(graphs, range(graphs.size), ROUNDS), 0),
            self.members,
            self.inbox,
            shares=shares,
            earliest=earliest,
            completed=lambda rank: self.known.get(rank, 0),
        )

    @property
    def quorum(self):
        return max(self.ahead, *(one.current_round for one in self.members.all()))

    def reach(self, **there):
        """Neighbors are heard, in these rounds."""
        for rank, reached in there.items():
            self.members.greet(int(rank[1:]), f"link {rank}", reached, 0.0)

    def sits_out(self, number, **there):
        """The round that it announces when it is about to begin round `number`; `there`: where neighbors are."""
        self.reach(**there)
        assert self.entry.behind(number)
        self.inbox.open(number)
        return self.entry.enters

    def gets(self, rank, number):
        body = wire.Body(rank=rank, federation=b"", round=number, sizes=[4], digest=bytes(wire.DIGEST_BYTES))
        assert self.inbox.put(body, Received([b"body"], 4))


@pytest.fixture
def ring():
    return Away(build("ring", 8))


@pytest.fixture
def turns():
    """Of four, rank 0 is with rank 1 in even rounds and with rank 2 in odd ones."""
    pairs = np.kron(np.eye(2), np.ones((2, 2))) / 2
    order = [0, 2, 1, 3]
    return Away(Changing(4, lambda number: pairs[np.ix_(order, order)] if number % 2 else pairs))


@pytest.fixture
def apart():
    """Of four, rank 0 is with rank 1 in even rounds and by itself in odd ones."""
    pairs = np.kron(np.eye(2), np.ones((2, 2))) / 2
    alone = np.kron(np.diag([0.0, 1.0]), np.ones((2, 2)) / 2) + np.diag([1.0, 1.0, 0.0, 0.0])
    return Away(Changing(4, lambda number: alone if number % 2 else pairs))


# -- which round -------------------------------------------------------------------------------------------------------


def test_it_goes_to_the_round_of_its_furthest_neighbor_and_announces_the_next(ring):
    assert ring.sits_out(3, r1=20, r7=19) == ROUNDS, "which round it will be is not known yet"
    assert [ring.sits_out(number) for number in range(4, 19)] == [ROUNDS] * 15
    assert [ring.entry.verdict(number) for number in range(3, 19)] == ["over"] * 16
    assert ring.sits_out(19) == 20
    ring.gets(7, 19)
    assert ring.entry.verdict(19) == "over", "rank 1 is in round 20, and would wait in it for a body that is not begun"
    assert ring.sits_out(20, r7=20) == 21
    ring.gets(7, 20)
    ring.reach(r7=21)
    assert ring.entry.verdict(20) == "wait", "the body of rank 1 comes"
    ring.gets(1, 20)
    assert ring.entry.verdict(20) == "adopt", "rank 7 waits in round 21"
    ring.entry.adopt(20)
    assert not ring.entry.behind(21)
    assert ring.entry.enters == 21, "a message that leaves before round 20 is on disk names that round"
    assert not ring.entry.behind(22)
    assert ring.entry.enters == 0


@pytest.mark.parametrize("is_heard", [False, True])
def test_a_neighbor_that_others_know_to_have_gone_on_is_past_this_peer_unless_its_own_word_is_there(ring, is_heard):
    """A cut heals, and the first neighbor that is heard again knows how far the other one is."""
    ring.reach(r1=3, r7=3)
    ring.members.goodbye(ring.members[7], "stopped", 0.0)
    ring.ahead, ring.known[7] = 9, 9
    ring.reach(**{"r7": 4} if is_heard else {})
    assert ring.entry.behind(3) != is_heard


def test_without_a_body_it_does_not_enter(ring):
    assert ring.sits_out(3, r1=5, r7=5) == ROUNDS
    assert ring.sits_out(4) == 5
    assert ring.entry.verdict(4) == "over", "those that are past it have sent none"
    assert ring.sits_out(5) == 6
    assert ring.entry.verdict(5) == "wait"
    assert ring.entry.lacks_a_body


def test_bodies_that_come_too_late_put_it_off(ring):
    ring.sits_out(3, r1=20, r7=20)
    assert ring.sits_out(20) == 21
    ring.gets(1, 20)
    ring.reach(r7=22)
    assert ring.entry.verdict(20) == "over", "rank 7 waits for it in no round that it could enter after this one"
    assert ring.sits_out(21) == 22
    ring.reach(r1=22)
    assert ring.sits_out(22) == 23


def test_an_entry_that_a_neighbor_has_completed_is_put_off(ring):
    ring.sits_out(3, r1=20, r7=20)
    ring.sits_out(20)
    ring.entry.adopt(20)
    assert ring.sits_out(21, r1=22) == 22


def test_what_a_lost_disk_may_have_released_puts_the_entry_off():
    ring = Away(build("ring", 8), earliest=25)
    ring.sits_out(3, r1=20, r7=20)
    assert ring.sits_out(20) == 25
    ring.entry.adopt(20)
    assert ring.sits_out(21, r1=21, r7=21) == 25
    ring.entry.adopt(24)
    assert not ring.entry.behind(25)


def test_one_that_releases_nothing_yet_says_so_although_it_is_not_behind():
    ring = Away(build("ring", 8), earliest=25)
    ring.reach(r1=3, r7=3)
    assert not ring.entry.behind(3)
    assert ring.entry.enters == 25


def test_where_nothing_is_shared_it_enters_as_soon_as_it_has_caught_up():
    ring = Away(build("ring", 8), shares=False)
    ring.sits_out(3, r1=20, r7=20)
    assert ring.entry.verdict(3) == "over"
    assert not ring.entry.lacks_a_body
    assert ring.sits_out(19) == 20
    assert not ring.entry.behind(20)


# -- for whom it waits -------------------------------------------------------------------------------------------------


def test_it_waits_for_those_that_are_in_the_round_alone(ring):
    """Rank 7, which is past it, may have sat it out, and would wait for this peer's body."""
    ring.sits_out(3, r1=20, r7=20)
    ring.sits_out(20)
    ring.reach(r7=21)
    assert ring.entry.coming(20) == [1]
    ring.gets(1, 20)
    assert ring.entry.coming(20) == []
    assert ring.entry.verdict(20) == "adopt"


@pytest.mark.parametrize("how", ["away", "returner", "slow"])
def test_it_does_not_wait_for_one_that_sends_no_body(ring, how):
    ring.sits_out(3, r1=20, r7=20)
    if how == "away":
        ring.members.goodbye(ring.members[7], "failed", 0.0)
    elif how == "returner":
        ring.members[7].enters = 21
    else:
        ring.members[7].current_round = 18
    ring.sits_out(20)
    assert ring.entry.coming(20) == [1]


def test_after_the_last_round_it_waits_for_those_that_have_completed_it(ring):
    ring.sits_out(3, r1=ROUNDS, r7=ROUNDS)
    assert ring.entry.verdict(ROUNDS - 2) == "over"
    assert ring.sits_out(ROUNDS - 1) == ROUNDS
    assert ring.entry.coming(ROUNDS - 1) == [1, 7]
    ring.gets(1, ROUNDS - 1)
    ring.members.goodbye(ring.members[7], "done", 0.0)
    assert ring.entry.verdict(ROUNDS - 1) == "adopt"


def test_among_returners_alone_it_goes_as_far_as_a_quorum_has_and_no_further(ring):
    """They wait for bodies like itself: each would wait for the other."""
    ring.ahead = 12
    ring.sits_out(8, r1=11, r7=11)
    for rank in (1, 7):
        ring.members[rank].enters = ROUNDS
    ring.sits_out(11)
    assert ring.entry.verdict(11) == "over"
    ring.sits_out(12)
    assert ring.entry.verdict(12) == "wait"


# -- where edges change ------------------------------------------------------------------------------------------------


def test_a_neighbor_far_ahead_counts_in_the_rounds_that_it_shares(turns):
    """Rank 2 is in round 16, which it does not share, and has completed the odd ones before that."""
    turns.sits_out(7, r1=10, r2=16)
    assert turns.sits_out(10) == 11
    assert turns.entry.coming(10) == [1]


def test_in_a_round_without_neighbors_it_waits_for_those_that_go_on_and_leads_none(apart):
    apart.sits_out(4, r1=10)
    assert apart.entry.verdict(9) == "over", "the neighbor has completed it"
    assert apart.sits_out(9) == ROUNDS, "no body is adopted in it"
    assert apart.entry.verdict(11) == "wait"
    apart.ahead = 12
    assert apart.entry.verdict(11) == "over"


def test_one_that_keeps_up_with_a_neighbor_of_other_rounds_is_not_behind_one_that_has_ended(turns):
    """That one may have passed this round as a returner, and has no body of it."""
    turns.reach(r1=ROUNDS, r2=ROUNDS - 3)
    assert not turns.entry.behind(ROUNDS - 4)


@pytest.mark.parametrize("far", ["ahead", "dead", "on its way"])
def test_one_that_keeps_up_with_none_is_behind_those_that_have_ended(turns, far):
    turns.reach(r1=ROUNDS - 1 if far == "on its way" else ROUNDS, r2=ROUNDS if far == "ahead" else ROUNDS - 3)
    if far == "dead":
        turns.members.give_up(2)
    assert turns.entry.behind(ROUNDS - 4)
