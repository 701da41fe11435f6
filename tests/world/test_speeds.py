"""Peers at unequal speeds with a budget for each round: slow ones are mixed in every round, and hold up none."""

import math

import pytest

from dpeer.peer.core.membership import Membership
from dpeer.peer.core.round_budget import RoundBudget
from tests.world.checking import found_in
from tests.world.disk import Files
from tests.world.faults import Fault
from tests.world.scenario import Scenario
from tests.world.world import World

ROUNDS = 36
SLOW = Fault("slow", (3,), 0.0, math.inf, times=40.0)


def played(**changes):
    return World(Scenario(3, "ring", 5, ROUNDS, faults=(SLOW,), disk=(0.0,), **changes), log=True).run()


def missed(world):
    """The rounds in which rank 2 has not mixed the slow rank's body."""
    return [number for number in range(ROUNDS) if 3 not in world.used[2, number]]


def test_a_peer_forty_times_slower_is_mixed_in_every_round_and_the_others_are_not_held_up():
    waiting, left_out = played(), played(deadline=8.0)
    assert missed(waiting) == []
    assert min(waiting.ended[rank, ROUNDS - 1] for rank in range(5)) > ROUNDS * 0.6 * 40
    assert len(missed(left_out)) >= ROUNDS - 8, "it takes part in hardly a round"
    budgeted = played(deadline=8.0, budgets=((3, 2.0),))
    assert missed(budgeted) == []
    assert budgeted.sat_out == set()
    assert max(budgeted.ended.values()) < ROUNDS * 4.5, "one step of its ten takes at most 0.1 * 1.4 * 40 seconds"


@pytest.mark.parametrize("deadline", [None, 8.0])
def test_it_finds_by_itself_how_long_a_round_may_take(deadline):
    """It trains the first round whole: all wait for it then, or it sits some rounds out."""
    world = played(deadline=deadline, budgets=((3, "auto"),))
    late = max(missed(world), default=0)
    assert late < ROUNDS - 10
    assert all(3 in world.used[rank, number] for rank in (2, 4) for number in range(late + 1, ROUNDS))
    first = max(world.ended[rank, late] for rank in (2, 4))
    assert (world.ended[2, ROUNDS - 1] - first) / (ROUNDS - 1 - late) < 6, "seconds a round"


def test_a_round_is_trained_again_with_the_steps_that_were_released():
    """Killed when its body has left and the round is not complete; the speed is another one when it is back."""
    slow = Fault("slow", (1,), 0.0, 3.0, times=10.0)
    for at in (1.5, 2.0, 2.5, 3.0, 3.5):
        crash = Fault("crash", (1,), at, 1.0)
        World(Scenario(4, "ring", 4, 8, budgets=((1, 1.0),), faults=(slow, crash))).run()


# -- mutations ---------------------------------------------------------------------------------------------------------


def no_budget_is_kept(patch):
    patch.setattr(RoundBudget, "begin", lambda self, number, now: None)


def arrivals_are_not_noted(patch):
    patch.setattr(RoundBudget, "arrived", lambda self, rank, number, now: None)


def the_slowest_is_the_measure(patch):
    """What this peer itself takes counts as what the neighbors take."""
    patch.setattr(RoundBudget, "arrived", lambda self, rank, number, now: self._arrivals.update({(rank, number): 1e4}))


def an_arrival_drops_those_of_later_rounds(patch):
    """What a quick neighbor takes counts only if all slow ones are heard before it."""
    arrived = RoundBudget.arrived

    def dropped(self, rank, number, now):
        arrived(self, rank, number, now)
        self._arrivals = {key: at for key, at in self._arrivals.items() if key[1] <= number}

    patch.setattr(RoundBudget, "arrived", dropped)


def overdue_until_it_is_in_the_same_round(patch):
    reached = Membership._reached

    def later(self, neighbor, number):
        overdue = neighbor.overdue
        reached(self, neighbor, number)
        if neighbor.current_round < self.current_round:
            neighbor.overdue = overdue

    patch.setattr(Membership, "_reached", later)


def a_round_is_trained_again_by_the_clock(patch):
    patch.setattr(Files, "recorded", lambda self, number: None)


MUTATIONS = {
    no_budget_is_kept: 0,
    arrivals_are_not_noted: 4,
    the_slowest_is_the_measure: 4,
    an_arrival_drops_those_of_later_rounds: 274,
    overdue_until_it_is_in_the_same_round: 300,
    a_round_is_trained_again_by_the_clock: 14,
}
"""Mutations, and the seed that found each when this was written, which is played first."""

test_a_mutation_is_found = found_in("speeds", MUTATIONS)
