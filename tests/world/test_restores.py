"""Restores: a peer that lost its disk goes on with a backup: it counts what it released since, and repeats nothing."""

import pytest

from dpeer.peer.core.round_clock import RoundClock
from dpeer.peer.restored import Restored
from dpeer.peer.rounds import _RoundLoop
from tests.thinning import every
from tests.world.checking import check, why
from tests.world.disk import Files
from tests.world.faults import Fault
from tests.world.learner import WorldLearner
from tests.world.restores import LOST, RESTORES, generate_restores
from tests.world.scenario import Scenario
from tests.world.world import World

CHUNKS = 12


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(6, range(CHUNKS)))
def test_the_invariants_hold_when_backups_are_put_back(chunk):
    check(generate_restores, range(chunk, RESTORES, CHUNKS))


def restored(seconds, *faults, size=5, rounds=40, **more):
    """A world in which rank 3's disk is copied after 5 s and lost at 12 s, and the copy put back `seconds` later."""
    loss = Fault("back up", (3,), 5.0), Fault("restore", (3,), 12.0, seconds), *faults
    return World(Scenario(1, "ring", size, rounds, wait=300.0, faults=loss, **more)).run()


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
    is_lost = _RoundLoop._is_lost

    async def hasty(self, number, active, behind, restored):
        self.saver._files._disk.restored = None
        return await is_lost(self, number, active, behind, restored)

    patch.setattr(_RoundLoop, "_is_lost", hasty)


def the_next_round_is_thought_to_be_new(patch):
    """A peer that has completed n rounds may have released the one after them."""
    patch.setattr(Restored, "last_lost", lambda self, ahead, every: max(self.completed, ahead) - 1)


def what_others_remember_is_not_heard(patch):
    patch.setattr(RoundClock, "remind", lambda self, rounds: None)


MUTATIONS = {
    it_goes_on_from_its_backup: 0,
    it_charges_no_round_that_it_sits_out: 0,
    it_charges_none_that_others_remember: 0,
    it_forgets_after_a_crash_that_it_was_restored: 0,
    the_next_round_is_thought_to_be_new: 0,
    what_others_remember_is_not_heard: 0,
}
"""Mutations, and the seed that found each when this was written, which is played first."""


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    assert any(why(generate_restores(seed)) for seed in (MUTATIONS[mutation], *range(RESTORES)))
