"""Peers that are drained and come back: no round is lost, and all bits are those of an undisturbed run."""

import math
from dataclasses import replace

import pytest

from dpeer.peer.core.exchange import Exchange
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.protocol import Core
from dpeer.peer.core.waiting import Waiting
from tests.thinning import every
from tests.world.checking import found_in
from tests.world.drains import generate_drains, generate_pairs
from tests.world.faults import Fault
from tests.world.scenario import Scenario
from tests.world.world import World


def test_a_federation_that_is_upgraded_one_peer_after_the_other_loses_no_round():
    drains = tuple(Fault("drain", (rank,), 5.0 + 10 * rank, 4.0) for rank in range(4))
    world = World(Scenario(1, "ring", 4, 12, pace=1.0, faults=drains)).run()  # compares the bits
    assert [len(lives) for lives in world.lives] == [2, 2, 2, 2]
    assert {life.outcome.status for life in world.present} == {"done"}
    assert all(len(heard) == 2 for heard in world.used.values())
    assert not world.sat_out


def part_of(rank, graph, gone):
    """The ranks that can be reached from this one past those that are gone."""
    found, look = set(), [rank]
    while look:
        one = look.pop()
        if one not in found and one not in gone:
            found.add(one)
            look += graph.at(0, one).out_neighbors
    return found


@pytest.mark.parametrize("seed", every(2, range(24)))
def test_two_that_leave_at_once_lose_no_round_and_a_connected_quorum_goes_on(seed):
    scenario = generate_pairs(seed)
    world = World(scenario).run()
    assert not world.violations
    gone = {rank for fault in scenario.faults for rank in fault.ranks}
    left = {life.rank: life.outcome for life in world.present if life.rank in gone}
    assert {one.status for one in left.values()} == {"stopped"}
    for life in world.present:
        if life.rank in gone:
            continue
        part = part_of(life.rank, scenario.graphs, gone)
        quorum = 2 * len(part) > scenario.size or (2 * len(part) == scenario.size and 0 in part)
        assert life.outcome.status == ("done" if quorum else "isolated"), (scenario, life.rank, part)
    for rank, outcome in left.items():
        last = outcome.completed_rounds - 1
        others = [one for one in scenario.graphs.at(last, rank).out_neighbors if (one, last) in world.used]
        assert all(rank in world.used[one, last] for one in others), "its last body is in every mix of that round"


# -- mutations ---------------------------------------------------------------------------------------------------------


def leave_before_the_last_body_is_used(patch):
    ranks = Waiting._ranks
    patch.setattr(Waiting, "_ranks", lambda self, wait, now: [] if wait.kind == "part" else ranks(self, wait, now))
    leave = Core.leave

    def hasty(self, reason, now, back_within=0):
        for neighbor in self.members.all():
            if (queue := self.send_queues.get(neighbor.link)) is not None:
                queue.bodies.clear()
        return leave(self, reason, now, back_within)

    patch.setattr(Core, "leave", hasty)


def ignore_the_announcement(patch):
    goodbye = Membership.goodbye
    patch.setattr(
        Membership, "goodbye", lambda self, neighbor, reason, now, back_within=0.0: goodbye(self, neighbor, reason, now)
    )


def take_a_returner_for_left_behind(patch):
    greet = Membership.greet

    def forgetful(self, rank, link, number, now):
        before, self[rank].grace = self[rank].grace, 0.0
        try:
            return greet(self, rank, link, number, now)
        finally:
            self[rank].grace = before

    patch.setattr(Membership, "greet", forgetful)


def mix_without_those_that_leave_too(patch):
    enter = Core.enter

    def forgetful(self, number, now):
        effects = enter(self, number, now)
        self.waiting.begun_at = math.inf
        return effects

    patch.setattr(Core, "enter", forgetful)


def finish_without_one_that_comes_back(patch):
    """It lacks the last body."""
    unfinished = Exchange.unfinished
    patch.setattr(
        Exchange,
        "unfinished",
        lambda self, *rest: [rank for rank in unfinished(self, *rest) if self._members.is_there(rank)],
    )


def begin_other_rounds(patch):
    patch.setattr(Core, "drain", lambda self, now: [])


_SOONER = generate_drains(121)
_SOONER = replace(_SOONER, faults=tuple(replace(one, at=round(one.at - 0.39, 3)) for one in _SOONER.faults))

MUTATIONS = {
    leave_before_the_last_body_is_used: 49,
    ignore_the_announcement: 3,
    take_a_returner_for_left_behind: 11,
    mix_without_those_that_leave_too: 1,
    finish_without_one_that_comes_back: _SOONER,
    begin_other_rounds: 0,
}

test_a_mutation_is_found = found_in("drains", MUTATIONS)
