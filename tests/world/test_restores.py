"""Restores: a peer that lost its disk goes on with a backup: it counts what it released since, and repeats nothing."""

from dataclasses import replace

import pytest

from dpeer.peer.core.protocol import Core
from dpeer.peer.core.round_clock import RoundClock
from dpeer.peer.restored import Restored
from dpeer.simulation.network import Conditions
from tests.thinning import every
from tests.world.checking import check, why
from tests.world.disk import Files
from tests.world.faults import Fault
from tests.world.learner import WorldLearner
from tests.world.restores import LOST, RESTORES, generate_restores, generate_singly
from tests.world.scenario import Scenario
from tests.world.world import Violation, World

CHUNKS = 12


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(6, range(CHUNKS)))
def test_the_invariants_hold_when_backups_are_put_back(chunk):
    check(generate_restores, range(chunk, RESTORES, CHUNKS))


def restored(seconds, *faults, size=5, rounds=40, **more):
    """A world in which rank 3's disk is copied after 5 s and lost at 12 s, and the copy put back `seconds` later."""
    loss = Fault("back up", (3,), 5.0), Fault("restore", (3,), 12.0, seconds), *faults
    return World(Scenario(1, "ring", size, rounds, wait=300.0, faults=loss, **more)).run()


def test_a_backup_of_the_first_round_is_another_incarnation_although_no_neighbor_knows_of_more():
    """The lost disk had completed none, and its neighbors have mixed the body of its first round."""
    faults = Fault("back up", (5,), 2.87), Fault("restore", (5,), 3.23, 0.26)
    world = World(Scenario(1, "ring", 6, 8, wait=300.0, faults=faults, disk=(2.0,))).run()
    assert world.lives[5][-1].peer.core.entry.incarnation == 1
    assert world.disks[5].restored is None


@pytest.mark.parametrize("seconds", [0.0, 2.0, 30.0])
def test_all_rounds_since_the_backup_are_charged_and_released_again_in_none(seconds):
    """Its neighbors may still wait for it, or be far ahead."""
    world = restored(seconds)
    assert world.lives[3][-1].outcome.status == "done"
    first, second = world.lives[3]
    lost = [number for number, incarnation in world.disks[3].ledger if incarnation == LOST]
    again = [number for rank, number, life in world.released if rank == 3 and life == 1]
    assert max(first.began) in lost
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert again == list(range(lost[-1] + 1, 40))
    assert second.files.restored is None


LOOSE = Conditions(latency=(0.001, 0.002), capacity=32, redial=(0.1, 2.0), notice=(0.0, 0.5))


def loosely(seed, topology, size, rounds, *faults, **more):
    """A world in which each rank takes part in some rounds only, so that some are far ahead of others."""
    more = {"conditions": LOOSE, **more}
    return World(Scenario(seed, topology, size, rounds, 0.6, wait=300.0, faults=faults, **more)).run()


def test_a_backup_may_be_of_a_round_that_no_other_has_begun():
    """Rank 2 has run rounds without neighbors by itself."""
    world = loosely(20313, "star", 3, 28, Fault("back up", (2,), 5.63), Fault("restore", (2,), 10.31, 1.41))
    (way,) = (one for one in world.returns if one.life.rank == 2)
    others = [number for (rank, number), at in world.began.items() if rank != 2 and at < world.began[2, way.since]]
    assert way.since > max(others) + 1
    assert way.adopted


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


def test_neighbors_that_were_killed_and_have_forgotten_a_round_are_not_believed():
    """All lose power at once, with checkpoints of every fourth round."""
    power = tuple(Fault("power", (rank,), 12.0, 1.0) for rank in (0, 1, 2, 4))
    world = restored(1.0, *power, checkpoint_every=4)
    assert world.lives[3][-1].outcome.status == "done"


def test_all_that_are_restored_wait_for_one_that_remembers():
    """Two of three, side by side: each comes back by what the third one knows."""
    both = Fault("back up", (1,), 5.0), Fault("restore", (1,), 12.0, 3.0)
    world = World(Scenario(1, "full", 3, 30, wait=300.0, faults=(
        *both, Fault("back up", (2,), 5.0), Fault("restore", (2,), 12.5, 3.0),
    ))).run()  # fmt: skip
    assert all(life.outcome.status == "done" for life in world.present)


FOUND_SINGLY = 0
"""A seed that finds a body which is sent again."""


class Unasked(World):
    """A world whose operators state nothing, each of whom puts one rank back."""

    def stated(self):
        return None


@pytest.mark.parametrize("seed", range(8))
def test_of_ranks_that_are_all_put_back_singly_none_releases_again(seed):
    """A copy that is a round further than another must not look like a peer that has gone on."""
    world = Unasked(generate_singly(seed)).run()
    assert {life.outcome.status for life in world.present} == {"isolated"}
    assert not [number for _, number, life in world.released if life > 0]


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("seconds", [0.0, 30.0])
def test_of_two_peers_the_one_that_is_left_waits_for_the_other(rank, seconds):
    """Neither is a quorum by itself, but for the lower one where the other is done."""
    loss = Fault("back up", (rank,), 5.0), Fault("restore", (rank,), 9.0, seconds)
    world = World(Scenario(1, "ring", 2, 25, wait=300.0, faults=loss)).run()
    assert [life.outcome.status for life in world.present] == ["done", "done"]
    assert world.used[0, 24] == [1]


# -- mutations ---------------------------------------------------------------------------------------------------------


def it_goes_on_from_its_backup(patch):
    """As if an older copy had been put back by hand."""
    take_up = Files.take_up

    def blind(self):
        start = take_up(self)
        self.restored = None
        return start

    patch.setattr(Files, "take_up", blind)


def it_charges_no_round_that_it_sits_out(patch):
    charge = WorldLearner.charge_lost

    def mean(self, number, *, active, restarts):
        charge(self, number, active=active and self._life.peer.core.entry.since is None, restarts=restarts)

    patch.setattr(WorldLearner, "charge_lost", mean)


def it_charges_none_that_others_remember(patch):
    patch.setattr(Files, "last_lost", lambda self, ahead: -1)


def it_forgets_after_a_crash_that_it_was_restored(patch):
    take_up = Files.take_up

    def hasty(self):
        start, self._disk.restored = take_up(self), None
        return start

    patch.setattr(Files, "take_up", hasty)


def the_next_round_is_thought_to_be_new(patch):
    """A peer that has completed n rounds may have released the one after them."""
    patch.setattr(Restored, "last_lost", lambda self, ahead, every: max(self.completed, ahead) - 1)


def what_others_remember_is_not_heard(patch):
    patch.setattr(RoundClock, "remind", lambda self, rounds: None)


def it_announces_no_entry(patch):
    """Two side by side that release nothing yet wait for each other's bodies."""
    patch.setattr(Core, "withhold", lambda self, number, until: setattr(self.entry, "earliest", until + 1))


_KILLED_AT_ONCE = Scenario(1, "ring", 5, 40, wait=300.0, faults=(
    Fault("back up", (3,), 5.0), Fault("restore", (3,), 12.0, 3.0), Fault("power", (3,), 15.001, 1.0),
))  # fmt: skip
"""Before it has charged anything."""

_ALL = Scenario(1, "full", 3, 12, wait=300.0, faults=tuple(
    fault for rank in range(3) for fault in (Fault("back up", (rank,), 0.0), Fault("restore", (rank,), 4.0, 2.0))
))  # fmt: skip
"""All go on with copies of empty disks, of which none is a returner."""

MUTATIONS = {
    it_goes_on_from_its_backup: 0,
    it_charges_no_round_that_it_sits_out: 0,
    it_charges_none_that_others_remember: 1,
    it_forgets_after_a_crash_that_it_was_restored: _KILLED_AT_ONCE,
    the_next_round_is_thought_to_be_new: 1,
    what_others_remember_is_not_heard: 1,
    it_announces_no_entry: _ALL,
}
"""Mutations, and the seed that found each when this was written, or a schedule made for it, which is played first."""


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    first = MUTATIONS[mutation]
    scenario = first if isinstance(first, Scenario) else generate_restores(first)
    assert why(scenario) or any(why(generate_restores(seed)) for seed in range(RESTORES))


def test_the_body_of_a_backup_that_is_sent_again_is_found(monkeypatch):
    """Others that were put back, too, would adopt it and go on."""
    monkeypatch.setattr(Files, "resends", lambda self: True)
    with pytest.raises(Violation, match="its ledger lacks rounds"):
        Unasked(generate_singly(FOUND_SINGLY)).run()


@pytest.mark.parametrize("scenario", [_KILLED_AT_ONCE, _ALL])
def test_a_schedule_that_is_made_for_a_mutation_ends_well_without_it(scenario):
    assert why(scenario) is None
