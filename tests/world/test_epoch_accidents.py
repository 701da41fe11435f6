"""Accidents while members come and go: rolled-back disks, old epochs, joiners that die, changes of one round, twins."""

import copy
import math

import pytest

from dpeer.peer.core.connection_setup import ConnectionSetup
from dpeer.simulation.network import later
from tests.world.epochs import Change, EpochWorld
from tests.world.faults import Fault
from tests.world.scenario import Scenario


def played(*changes, topology="ring", size=5, rounds=60, faults=(), kind=EpochWorld, **options):
    return kind(Scenario(3, topology, size, rounds, wait=200.0, faults=faults), changes, **options).run()


def statuses(world):
    return {life.rank: life.outcome.status for life in world.present}


def last_epochs(world, rounds=60):
    """By rank, the epoch of the last round, of those who have run it."""
    return {rank: epoch for (rank, number), epoch in world.ran.items() if number == rounds - 1}


class RolledBack(EpochWorld):
    """A rank's disk is copied at one time, and its process goes on from that copy at another."""

    def __init__(self, scenario, changes, *, rank, copied, restored):
        super().__init__(scenario, changes)
        self.rank, self.copied, self.restored = rank, copied, restored

    def _begin_all(self):
        super()._begin_all()
        later(self.copied, self.copy)
        later(self.restored, self.restore)

    def copy(self):
        self.backup = copy.deepcopy(self.disks[self.rank])

    def restore(self):
        self.kill(self.rank, notice=False)
        self.disks[self.rank] = self.backup
        later(2.0, lambda: self._begin(self.rank, resume=True))


@pytest.mark.parametrize("restored", [7.0, 9.0, 20.0])
def test_a_disk_from_before_an_epoch_takes_back_no_vote(restored):
    """Rank 2 has accepted it, and does not know it any more: before its round, at about it, and long after it."""
    change = Change(6.0, 1, leave=(0,))
    world = played(change, kind=RolledBack, rank=2, copied=3.0, restored=restored)
    ((_, epoch, _),) = world.handed
    assert last_epochs(world) == dict.fromkeys((1, 2, 3, 4), epoch)
    assert statuses(world) == {0: "left", 1: "done", 2: "done", 3: "done", 4: "done"}


def test_a_leaver_that_begins_again_from_an_old_disk_hears_that_it_has_left():
    """It comes with an epoch that is over: its rounds are no rounds of the others any more."""
    world = played(Change(6.0, 1, leave=(3,)), kind=RolledBack, rank=3, copied=3.0, restored=30.0)
    ((_, epoch, _),) = world.handed
    assert statuses(world)[3] == "left"
    assert len(world.lives[3]) == 2
    assert not any(3 in heard for (_, number), heard in world.used.items() if number >= epoch.begins)
    assert last_epochs(world) == dict.fromkeys((0, 1, 2, 4), epoch)


@pytest.mark.parametrize("what", ["power", "crash", "lose"])
@pytest.mark.parametrize("round_", ["before", "first"])
def test_a_joiner_that_dies_at_its_entry_comes_back_as_a_returner(what, round_):
    """In the round in which it adopts, or in its first one."""
    begins = played(Change(3.0, 1, join=1), size=4, rounds=12).handed[0][1].begins
    dies = Fault(what, (4,), 0.3, 20.0, round=begins - (round_ == "before"))
    world = played(Change(3.0, 1, join=1), size=4, faults=(dies,))
    ((_, epoch, _),) = world.handed
    assert epoch.begins == begins
    assert statuses(world) == dict.fromkeys(range(5), "done")
    assert len(world.lives[4]) == 2
    assert last_epochs(world) == dict.fromkeys(range(5), epoch)
    assert 4 in world.used[0, 59]
    assert 4 in world.used[3, 59]


def test_a_joiner_that_dies_at_its_entry_for_good_is_gone_without_like_any_other():
    dies = Fault("power", (4,), 0.3, math.inf, round=7)
    world = played(Change(3.0, 1, join=1), size=4, faults=(dies,))
    ((_, epoch, _),) = world.handed
    assert world.lives[4][0].process.dead
    assert last_epochs(world) == dict.fromkeys(range(4), epoch)
    assert world.used[0, 59] == [1]


@pytest.mark.parametrize("topology", ["ring", "full", "one-peer-exponential"])
def test_one_joins_and_another_leaves_in_the_same_round(topology):
    world = played(Change(3.0, 1, join=1, leave=(3,)), topology=topology, size=4, rounds=24)
    world.without_faults()
    assert not world.violations
    assert statuses(world) == {0: "done", 1: "done", 2: "done", 3: "left", 4: "done"}


def test_after_twins_the_next_epoch_names_both_and_begins():
    changes = Change(6.0, 0, leave=(3,)), Change(6.0, 2, leave=(4,), blind=True), Change(25.0, 1, leave=(3,))
    world = played(*changes)
    (_, one, _), (_, other, _), (_, heals, _) = world.handed
    assert {void.digest for void in heals.void} == {one.digest, other.digest}
    assert not {one, other} & {*world.ran.values()}
    assert last_epochs(world) == dict.fromkeys((0, 1, 2, 4), heals)
    assert statuses(world)[3] == "left"


def test_a_joiner_that_no_neighbor_dials_is_found(monkeypatch):
    """It has dialled them all when it came, and they have to dial it once it is a member."""
    monkeypatch.setattr(ConnectionSetup, "_lost", lambda self: [])
    with pytest.raises(AssertionError):
        test_a_joiner_that_dies_at_its_entry_comes_back_as_a_returner("crash", "first")
