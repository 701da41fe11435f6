"""Restores: of a peer whose disk is an older copy neighbors know more; it counts that, and repeats no release."""

from dataclasses import replace

import pytest

from dpeer.exceptions import CheckpointError
from dpeer.peer.core.exchange import LedgerGuard
from dpeer.peer.core.protocol import Core
from dpeer.peer.core.returner import Entry
from dpeer.peer.core.round_clock import RoundClock
from dpeer.simulation.network import Conditions
from tests.world.checking import found_in
from tests.world.disk import STATED, Files
from tests.world.faults import Fault
from tests.world.learner import WorldLearner
from tests.world.scenario import Scenario
from tests.world.world import World


def put_back(seconds, *faults, size=5, rounds=40, **more):
    """A world in which rank 3's disk is copied after 5 s and lost at 12 s, and the copy put back `seconds` later."""
    loss = Fault("back up", (3,), 5.0), Fault("restore", (3,), 12.0, seconds), *faults
    return World(Scenario(1, "ring", size, rounds, wait=300.0, faults=loss, **more)).run()


@pytest.mark.parametrize("seconds", [0.0, 2.0, 30.0])
def test_a_peer_with_an_older_copy_refuses_and_once_its_rounds_are_stated_charges_and_repeats_none(seconds):
    """Its neighbors may still wait for it, or be far ahead."""
    world = put_back(seconds)
    first, refused, last = world.lives[3]
    assert isinstance(refused.outcome, CheckpointError)
    assert not refused.began
    assert last.outcome.status == "done"
    stated = [number for number, incarnation in world.disks[3].ledger if incarnation == STATED]
    again = [number for rank, number, life in world.released if rank == 3 and life == 2]
    assert max(first.began) in stated
    assert stated == list(range(stated[0], world.stated[3]))
    assert again == list(range(again[0], 40))
    assert again[0] >= world.stated[3]


def test_an_empty_disk_in_place_of_a_private_peers_is_an_older_copy_too():
    loss = Fault("back up", (3,), 0.0), Fault("restore", (3,), 12.0, 1.0)
    world = World(Scenario(1, "ring", 5, 40, wait=300.0, faults=loss)).run()
    assert isinstance(world.lives[3][1].outcome, CheckpointError)
    assert [number for number, _ in world.disks[3].ledger][: world.stated[3]] == list(range(world.stated[3]))


def test_a_copy_that_lacks_one_release_alone_is_found_by_who_has_its_body():
    """The lost disk had completed no more than the copy, and its neighbors have mixed the body of its next round."""
    faults = Fault("back up", (5,), 0.0), Fault("restore", (5,), 3.23, 0.26)
    world = World(Scenario(1, "ring", 6, 8, wait=300.0, faults=faults, disk=(2.0,))).run()
    assert world.stated[5] == 1
    assert world.disks[5].ledger[0] == (0, STATED)


def test_killed_on_its_way_back_it_charges_nothing_twice():
    world = put_back(3.0, Fault("power", (3,), 15.5, 1.0), Fault("power", (3,), 40.0, 1.0))
    assert len(world.lives[3]) == 5
    stated = [number for number, incarnation in world.disks[3].ledger if incarnation == STATED]
    assert sorted({*stated}) == stated
    assert world.lives[3][-1].outcome.status == "done"


LOOSE = Conditions(latency=(0.001, 0.002), capacity=32, redial=(0.1, 2.0), notice=(0.0, 0.5))


def loosely(seed, topology, size, rounds, *faults, **more):
    """A world in which each rank takes part in some rounds only, so that some are far ahead of others."""
    more = {"conditions": LOOSE, **more}
    return World(Scenario(seed, topology, size, rounds, 0.6, wait=300.0, faults=faults, **more)).run()


def test_a_returner_that_hears_another_one_alone_does_not_pass_those_who_go_on():
    """The hub of a star and a leaf, and rounds in which neither has a neighbor."""
    faults = [
        *(Fault("back up", (5,), 5.68), Fault("restore", (5,), 12.26, 26.25), Fault("crash", (1,), 10.45, 3.018)),
        *(Fault("back up", (2,), 38.09), Fault("restore", (2,), 38.14, 27.94)),
        *(Fault("back up", (0,), 38.09), Fault("restore", (0,), 41.53, 11.19)),
    ]
    conditions = replace(LOOSE, latency=(0.001, 0.02), chunk_bytes=16, redial=(0.1, 1.0))
    loosely(20221, "star", 6, 23, *faults, conditions=conditions)


def test_a_peer_that_has_kept_up_runs_its_last_rounds_though_a_returner_has_passed_them():
    """Rank 0 is back in round 25, and has no body of round 23. Rank 5, which has ended, needs none of rank 6."""
    world = loosely(
        4573, "ring", 7, 26, Fault("back up", (0,), 8.0), Fault("restore", (0,), 11.0, 25.0), checkpoint_every=3
    )
    assert world.present[6].outcome.status == "done"
    assert not [number for rank, number in world.sat_out if rank == 6]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_of_two_peers_the_one_that_is_left_waits_for_the_other(rank, seconds):
    """Neither is a quorum by itself, but for the lower one where the other is done."""
    loss = Fault("back up", (rank,), 5.0), Fault("restore", (rank,), 9.0, seconds)
    world = World(Scenario(1, "ring", 2, 25, wait=300.0, faults=loss)).run()
    assert [life.outcome.status for life in world.present] == ["done", "done"]
    assert world.used[0, 24] == [1]


# -- mutations ---------------------------------------------------------------------------------------------------------


def it_begins_all_the_same(patch):
    patch.setattr(LedgerGuard, "why_no_release", lambda self: None)


def rounds_that_others_know_are_not_heard(patch):
    parse = RoundClock.parse

    def deaf(self, table):
        heard, self.remembered = parse(self, table), 0
        return heard

    patch.setattr(RoundClock, "parse", deaf)


def bodies_that_neighbors_have_are_not_heard(patch):
    patch.setattr(LedgerGuard, "note", lambda self, released: None)


def what_is_stated_is_not_charged(patch):
    patch.setattr(WorldLearner, "charge_stated", lambda self, rounds: None)


def what_is_stated_is_released_again(patch):
    begin = Core.open

    def forgetful(self, dialled, number, now, addresses):
        self.entry.earliest = 0
        return begin(self, dialled, number, now, addresses)

    patch.setattr(Core, "open", forgetful)


def it_announces_no_entry(patch):
    """Two side by side that release nothing yet wait for each other's bodies."""
    behind = Entry.behind

    def silent(self, number):
        found = behind(self, number)
        if self.since is None:
            self.enters = 0
        return found

    patch.setattr(Entry, "behind", silent)


def a_round_that_is_not_charged_is_forgotten_by_a_resume(patch):
    """Killed twice, a peer whose disk was never lost would be refused: it has not sat its rounds out again by then."""
    take_up = Files.take_up

    def forgetful(self):
        found = take_up(self)
        self._disk.noted = found
        return found

    patch.setattr(Files, "take_up", forgetful)


_KILLED_TWICE = Scenario(
    1, "ring", 8, 45, wait=300.0, disk=(0.2,),
    faults=tuple(Fault("power", (3,), at, seconds) for at, seconds in ((5.0, 30.0), (35.5, 0.5), (36.7, 0.5))),
)  # fmt: skip
_SIDE_BY_SIDE = Scenario(1, "full", 3, 12, wait=300.0, stated=(0, 3, 3))

MUTATIONS = {
    it_begins_all_the_same: 0,
    rounds_that_others_know_are_not_heard: 0,
    bodies_that_neighbors_have_are_not_heard: 6,
    what_is_stated_is_not_charged: 0,
    what_is_stated_is_released_again: 1,
    it_announces_no_entry: _SIDE_BY_SIDE,
    a_round_that_is_not_charged_is_forgotten_by_a_resume: _KILLED_TWICE,
}

test_a_mutation_is_found = found_in("restores", MUTATIONS)


@pytest.mark.parametrize("stated", [(0, 3, 3), (3, 3, 3)])
def test_peers_side_by_side_that_release_nothing_yet_wait_for_no_body_of_each_other(stated):
    world = World(replace(_SIDE_BY_SIDE, stated=stated)).run()
    assert all(life.outcome.status == "done" for life in world.present)
    assert not [number for rank, number, _ in world.released if rank and number < 3]
