"""Members come and go while faults happen: drawn schedules, fixed runs with known results, and broken rules."""

import math

import pytest

from dpeer.peer.core.epoch_follower import EpochFollower
from dpeer.peer.core.schedule import Schedule
from tests.thinning import every
from tests.world.epochs import EPOCHS, Change, EpochWorld, before_each_body, generate_epochs, why_epochs
from tests.world.faults import Fault
from tests.world.scenario import Scenario

CHUNKS = 24


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(12, range(CHUNKS)))
def test_the_invariants_hold_while_members_come_and_go(chunk):
    for seed in range(chunk, EPOCHS, CHUNKS):
        if problem := why_epochs(seed):
            pytest.fail(f"seed {seed}: {problem}\n{generate_epochs(seed)}")


TOPOLOGIES = ("ring", "one-way", "one-peer-exponential", "star")


def played(scenario, *changes):
    world = EpochWorld(scenario, changes).run()
    world.without_faults()
    assert not world.violations
    return world


def statuses(world):
    return {life.rank: life.outcome.status for life in world.present}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_one_joins_and_one_leaves_without_a_round_lost(topology):
    world = played(Scenario(1, topology, 4, 24), Change(3.0, 1, join=1), Change(9.0, 2, leave=(3,)))
    assert statuses(world) == {0: "done", 1: "done", 2: "done", 3: "left", 4: "done"}
    assert not {rank for rank, _ in world.sat_out} - {4}
    (_, first, _), (_, second, _) = world.handed
    assert world.adopted[4, first.begins - 1], "the joiner takes its neighbors' mean before its entry"
    assert max(number for rank, number in world.used if rank == 3) == second.begins - 1


def test_one_that_is_evicted_while_it_runs_ends_as_evicted_and_not_as_one_that_left():
    world = played(Scenario(1, "ring", 5, 24), Change(3.0, 1, evict=(2,)), Change(9.0, 0, leave=(3,)))
    assert statuses(world) == {0: "done", 1: "done", 2: "evicted", 3: "left", 4: "done"}
    (_, first, _), (_, second, _) = world.handed
    assert max(number for rank, number in world.used if rank == 2) == first.begins - 1
    assert (first.evicted, second.evicted, second.former) == ((2,), (2,), (2, 3))


def test_the_start_waits_for_no_rank_that_a_change_lets_in_later():
    world = EpochWorld(Scenario(1, "ring", 4, 24), (Change(0.0, 1, join=1, starts=15.0),)).run()
    assert max(world.began[rank, 0] for rank in range(4)) < 5.0
    assert statuses(world) == dict.fromkeys(range(5), "done")


def test_a_returner_that_waits_in_vain_ends_although_its_clock_rounds():
    assert why_epochs(25) is None, "199.99999999999997 s of 200 had passed, and its timer was due for ever"


def test_a_run_is_extended_before_it_ends():
    world = played(Scenario(1, "ring", 4, 16), Change(3.0, 1, more=7))
    assert all(len(life.began) == 23 for life in world.present)
    assert set(statuses(world).values()) == {"done"}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_all_know_an_epoch_before_its_round_though_it_goes_with_bodies_alone(topology, monkeypatch):
    """In place of a document that is sent at once: on each link it goes before the next body, a hop a round."""
    before_each_body(monkeypatch)
    world = EpochWorld(Scenario(2, topology, 6, 24, pace=2.0), (Change(6.0, 1, leave=(4,)),)).run()
    (_, epoch, _), = world.handed  # fmt: skip
    within, outside = world.first_round(epoch)
    assert within == set(epoch.members)
    assert not outside


def test_a_minority_that_was_cut_off_while_an_epoch_spread_comes_back_in_it():
    cut = Fault("part", (4,), 4.0, 25.0)
    world = EpochWorld(Scenario(3, "ring", 5, 40, wait=100.0, faults=(cut,)), (Change(6.0, 1, leave=(0,)),)).run()
    (_, epoch, _), = world.handed  # fmt: skip
    assert world.ran[4, 39] == epoch
    assert statuses(world) == {0: "left", 1: "done", 2: "done", 3: "done", 4: "done"}


def test_an_epoch_of_a_minority_is_void_and_the_next_one_names_it():
    cut = Fault("part", (3, 4), 4.0, 40.0)
    changes = Change(6.0, 4, leave=(0,)), Change(60.0, 1, leave=(0,))
    world = EpochWorld(Scenario(3, "ring", 5, 60, wait=100.0, faults=(cut,)), changes).run()
    (_, void, _), (_, second, _) = world.handed
    assert [one.digest for one in second.void] == [void.digest]
    assert all(life.peer.core.epochs.chain.void == [void] for life in world.present)
    assert void not in world.ran.values()
    assert {world.ran[rank, 59] for rank in (1, 2, 3, 4)} == {second}


def test_of_two_epochs_of_one_number_none_begins_and_all_say_so():
    changes = Change(6.0, 0, leave=(3,)), Change(6.0, 2, leave=(4,), blind=True)
    world = EpochWorld(Scenario(3, "ring", 5, 24), changes, log=True).run()
    assert len(world.handed) == 2
    assert {epoch.number for epoch in world.ran.values()} == {0}
    said = [line for line in world.log if "two epochs of this number are signed" in line]
    assert {line.split("rank ")[1][0] for line in said} == set("01234")


def test_evicted_by_force_two_halves_of_a_ring_find_each_other():
    """Three and three of eight that have lost two: the operator hands the same epoch to both halves."""
    lost = tuple(Fault("power", (rank,), 10.0, math.inf) for rank in (3, 7))
    change = Change(60.0, 1, leave=(3, 7), forced=True, also=5)
    world = EpochWorld(Scenario(5, "ring", 8, 40, wait=200.0, faults=lost), (change,)).run()
    (_, epoch, _), = world.handed  # fmt: skip
    assert {world.ran[rank, 39] for rank in epoch.members} == {epoch}


def test_a_joiner_that_never_comes_holds_nobody_up():
    world = EpochWorld(Scenario(3, "ring", 4, 24), (Change(3.0, 1, join=1, starts=math.inf),)).run()
    assert set(statuses(world).values()) == {"done"}
    times = [world.ended[0, number] - world.began[0, number] for number in range(24)]
    assert max(times) < 5


def test_a_change_that_is_too_late_is_refused_and_kept_nowhere():
    world = EpochWorld(Scenario(3, "ring", 6, 24), (Change(6.0, 1, leave=(4,), later=-1),)).run()
    ((_, reason),) = world.refused
    assert "so that all know it before" in reason
    assert not any(disk.epochs.documents for disk in world.disks)


# -- mutations ---------------------------------------------------------------------------------------------------------


def never_spread(patch):
    patch.setattr(EpochFollower, "_spread", lambda self, epoch, source: None)


def bodies_of_two_epochs_are_mixed(patch):
    patch.setattr(Schedule, "epoch", lambda self, number: b"")


MUTATIONS = {
    never_spread: 0,
    bodies_of_two_epochs_are_mixed: 0,
}
"""Mutations, and the seed that found each when this was written, which is played first."""


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    assert any(why_epochs(seed) for seed in (MUTATIONS[mutation], *range(EPOCHS)))
