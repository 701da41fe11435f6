"""How long local training may take: given, or found from when the neighbors' bodies come."""

import random

import pytest

from dpeer.peer.core.round_budget import RoundBudget
from dpeer.topology import build
from tests.peer.table import CHUNK, chunked, ring


class Peers:
    """Peers in step: all begin a round when the last body of the one before is there, and all else takes `besides`."""

    def __init__(self, whole, given="auto", graph=None, besides=0.0, jitter=0.0, far=()):
        self.whole, self.besides, self.jitter, self.far = whole, besides, jitter, far
        size = len(whole)
        self.near = [
            [other for other in range(size) if other != rank] if graph is None else list(graph.connections(rank, 1))
            for rank in range(size)
        ]
        self.budgets = [
            RoundBudget(given if isinstance(given, str | None) else given.get(rank)) for rank in range(size)
        ]
        self.now, self.number, self.rng = 0.0, 0, random.Random(5)

    def round(self):
        """One round; the seconds that each has trained."""
        begin, number = self.now, self.number
        wholes = [one * self.rng.uniform(1 - self.jitter, 1 + self.jitter) for one in self.whole]
        limits = [budget.begin(number, begin) for budget in self.budgets]
        shares = [1.0 if one is None else one.share for one in limits]
        found = [whole * share for whole, share in zip(wholes, shares, strict=True)]
        for rank, budget in enumerate(self.budgets):
            budget.trained(budget.share, begin + found[rank])
            budget.released(number, begin + found[rank])
            for other in self.near[rank]:
                if other not in self.far:
                    budget.arrived(other, number, begin + found[other])
        self.now, self.number = begin + max(found) + self.besides, number + 1
        return found

    def rounds(self, count):
        return [self.round() for _ in range(count)]


def test_seconds_that_are_given_stay():
    found = Peers([1.0, 5.0], given={1: 2.0}).rounds(4)
    assert found == [[1.0, 5.0 / 20]] + [[1.0, 2.0]] * 3, "a twentieth shows how long all steps take"


def test_without_a_budget_a_round_has_no_limit():
    budget = RoundBudget(None)
    for number in range(3):
        assert budget.begin(number, float(number)) is None
        assert budget.share == 1.0
        budget.arrived(1, number, number + 0.01)
        budget.released(number, number + 0.9)


def test_a_share_is_counted_in_the_steps_that_were_taken():
    """Of ten steps one is taken at least, whatever the share: the whole is ten times that."""
    budget = RoundBudget(0.5)
    budget.begin(0, 0.0)
    budget.trained(1.0, 10.0)
    for number in range(1, 400):
        assert budget.begin(number, 20.0 * number).share == 0.05
        budget.trained(0.1, 20.0 * number + 1.0)
    budget.begin(400, 9000.0)
    budget.trained(0.1, 9000.01)
    assert budget.begin(401, 9100.0).share == 1.0, "it has become quick"


def test_a_resumed_peer_goes_on_with_the_limit_that_it_had():
    peers = Peers([1.0, 5.0])
    peers.rounds(4)
    limit = peers.budgets[1].begin(4, peers.now)
    again = RoundBudget("auto")
    again.resume(limit)
    assert again.begin(4, 7.0) == limit


def test_a_quick_neighbor_that_is_a_round_ahead_counts_although_a_slow_one_is_heard_after_it():
    """Of two, one takes 8 s; the other's next body is here before that one's, and before the next round begins."""
    budget = RoundBudget("auto")
    budget.begin(0, 0.0)
    for rank, number, now in ((1, 0, 1.0), (1, 1, 2.0), (2, 0, 8.0)):
        budget.arrived(rank, number, now)
    budget.released(0, 8.0)
    assert budget.begin(1, 8.0).seconds == 1.25 * (1 + 8) / 2
    budget.arrived(2, 1, 16.0)
    budget.released(1, 13.0)
    assert budget.begin(2, 16.0).seconds == 1.25 * ((1 + 8) / 2 + (0 + 8) / 2) / 2


def test_one_peer_five_times_slower_takes_a_quarter_longer_than_the_others_from_the_second_round_on():
    peers = Peers([1.0] * 7 + [5.0], graph=build("ring", 8))
    assert peers.round()[7] == 5.0, "nothing is known yet"
    assert peers.rounds(20) == [[1.0] * 7 + [1.25]] * 20


def test_a_peer_that_becomes_slow_or_quick_again_is_noticed_within_two_rounds():
    peers = Peers([1.0, 1.0, 1.0], given={2: "auto"})
    peers.rounds(6)
    peers.whole[2] = 9.0
    assert peers.rounds(3)[1:] == [[1.0, 1.0, 1.25]] * 2
    peers.whole[2] = 1.0
    assert peers.rounds(2)[1] == [1.0, 1.0, 1.0]
    peers.whole[:2] = [4.0, 4.0]
    peers.whole[2] = 20.0
    assert [one[2] for one in peers.rounds(12)][-1] == pytest.approx(5.0), "it grows again with the others"


@pytest.mark.parametrize("topology", ["ring", "full"])
def test_equal_peers_do_not_shorten_each_others_rounds(topology):
    peers = Peers([1.0] * 8, graph=build(topology, 8), jitter=0.1)
    for found in peers.rounds(200):
        assert min(found) >= 0.89


@pytest.mark.parametrize("topology", ["ring", "full"])
def test_one_quick_peer_does_not_drag_the_others_along(topology):
    peers = Peers([0.01] + [1.0] * 7, graph=build(topology, 8))
    last = peers.rounds(100)[-1]
    assert min(last[1:]) >= 0.6


def test_two_slow_ones_side_by_side_come_down_together():
    peers = Peers([1.0] * 6 + [5.0, 5.0], graph=build("ring", 8))
    last = peers.rounds(30)[-1]
    assert last[:6] == [1.0] * 6
    assert last[6] == last[7] == pytest.approx(1.25 * (1 + last[6]) / 2, rel=0.01)


def test_two_that_are_slow_do_not_wait_for_each_other_for_ever():
    """The middle and an end of a star: what one waits for the other is no time to train."""
    peers = Peers([16.0, 28.0, 1.0, 1.0, 1.0], graph=build("star", 5))
    assert max(peers.rounds(12)[-1]) < 4.0


def test_what_else_a_round_takes_may_training_take_too():
    """An evaluation of four seconds: with less training no round would be shorter by much."""
    assert Peers([1.0, 9.0], besides=4.0).rounds(5)[-1] == [1.0, 4.0]


def test_neighbors_that_are_away_do_not_count():
    assert Peers([1.0, 5.0, 0.1], far=(2,)).rounds(5)[-1][1] == 1.25
    assert Peers([1.0, 5.0], far=(0,)).rounds(5)[-1][1] == 5.0, "none is left to hold up"


def test_a_body_that_was_there_before_training_began_is_that_of_a_neighbor_ahead():
    budget = RoundBudget("auto")
    budget.arrived(1, 0, 9.0)
    assert budget.begin(0, 10.0).seconds is None
    budget.released(0, 18.0)
    budget.arrived(2, 0, 18.0)
    assert budget.begin(1, 19.0).seconds == 1.25 * (0.0 + 8.0) / 2


def test_a_neighbor_that_sends_at_once_takes_three_eighths_of_each_round():
    budget, now = RoundBudget("auto"), 0.0
    for number in range(60):
        limit = budget.begin(number, now).seconds
        release = now + (8.0 if limit is None else min(8.0, limit))
        budget.arrived(1, number, now)
        budget.released(number, release)
        now += 8.0
        budget.arrived(2, number, now)
        assert limit is None or limit >= 5 / 8 * 8.0


def test_rounds_that_were_sat_out_do_not_count():
    budget = RoundBudget("auto")
    budget.begin(0, 0.0)
    budget.arrived(1, 0, 1.0)
    budget.released(0, 5.0)
    budget.released(3, 900.0)  # it has begun no such round
    assert budget.begin(7, 1000.0).seconds == 1.25


@pytest.mark.parametrize("whole", [True, False], ids=["whole bodies", "in chunks"])
def test_a_core_times_the_bodies_that_come(whole):
    peer = ring(chunk_bytes=None if whole else CHUNK, round_seconds="auto")
    assert peer.core.train(0, peer.now).share == 1.0
    for seconds, link, rank in ((2, peer.links[1], 1), (4, "from 2", 2)):
        peer.now += seconds
        body = peer.body(rank, 0)
        peer.hear(link, *([body] if whole else map(list, chunked(body, CHUNK))))
    peer.now += 30
    peer.releases(0)
    peer.do(peer.core.begin(1, peer.now))
    assert peer.core.train(1, peer.now).seconds == 1.25 * (2 + 6) / 2
