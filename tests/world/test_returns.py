"""Returns: peers whose rounds were run without them adopt their neighbors' bodies, and are mixed again."""

import math
from dataclasses import replace

import pytest

from dpeer.peer.core.entry import Entry
from dpeer.peer.core.mass import Mass
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.protocol import Core
from dpeer.peer.saver import Saver
from tests.thinning import every
from tests.world.faults import Fault
from tests.world.learner import WorldLearner
from tests.world.returns import RETURNS, generate_returns
from tests.world.scenario import Scenario
from tests.world.shrinking import report, why
from tests.world.world import World

CHUNKS = 12


@pytest.mark.slow
@pytest.mark.parametrize("chunk", every(6, range(CHUNKS)))
def test_the_invariants_hold_when_peers_come_back(chunk):
    for seed in range(chunk, RETURNS, CHUNKS):
        scenario = generate_returns(seed)
        if problem := why(scenario):
            pytest.fail(report(seed, problem, scenario))


def away(*faults, topology="ring", size=8, rounds=40):
    world = World(Scenario(1, topology, size, rounds, wait=300.0, faults=faults)).run()
    assert all(life.outcome.status == "done" for life in world.present if not life.process.dead)
    return world


def entries(world):
    """By rank, how many rounds each return has sat out and the round in which it has entered."""
    return {way.life.rank: (way.last - way.since + 1, way.entered) for way in world.returns}


@pytest.mark.parametrize("what", ["power", "lose"])
def test_a_peer_that_was_away_adopts_and_is_mixed_in_its_first_round(what):
    """A lost disk is a return like another."""
    world = away(Fault(what, (3,), 5.0, 30.0))
    ((sat_out, entered),) = entries(world).values()
    assert sat_out > 5
    assert world.adopted[3, entered - 1] == [2, 4]
    assert 3 in world.used[2, entered]
    assert 3 in world.used[4, entered]


def test_neighbors_side_by_side_enter_one_after_the_other_from_the_outside_in():
    """Of three in a row the middle one hears returners alone, until those have entered."""
    world = away(*(Fault("power", (rank,), 5.0, 30.0) for rank in (2, 3, 4)))
    found = entries(world)
    assert found.keys() == {2, 3, 4}
    outside = min(found[2][1], found[4][1])
    assert outside < found[3][1]
    assert all(world.used[rank, 39] == sorted([(rank - 1) % 8, (rank + 1) % 8]) for rank in range(8))


def test_a_returner_adopts_from_one_neighbor_when_the_other_dies_meanwhile():
    world = away(Fault("power", (3,), 5.0, 30.0), Fault("power", (4,), 35.5, math.inf))
    ((_, entered),) = entries(world).values()
    assert world.adopted[3, entered - 1] == [2]
    assert 3 in world.used[2, entered]


@pytest.mark.parametrize("seconds", [25.0, 25.3, 25.6, 25.9])
def test_no_other_peer_waits_for_one_that_comes_back(seconds, monkeypatch):
    """Rounds of a second, and of a returner's way back none of the others' lasts a tenth longer."""

    def train(self, number, **budget):
        self._world.begins(self._life, number, self.next, trains=True)
        self._life.costs.owe(1.0)
        self._base = self.body
        return 0.0

    monkeypatch.setattr(WorldLearner, "train", train)
    monkeypatch.setattr("tests.world.world.Costs.before", lambda self, job: 0.0)
    world = away(Fault("crash", (3,), 5.0, seconds))
    ((_, entered),) = entries(world).values()
    back = min(time for (rank, number), time in world.began.items() if rank == 3 and time > 5.0 + seconds)
    began = {key: time for key, time in world.began.items() if key[0] != 3}
    lasted = [began[rank, number + 1] - time for (rank, number), time in began.items()
              if number < entered + 1 and time > back - 1.0]  # fmt: skip
    assert len(lasted) >= 7
    assert max(lasted) < 1.1 * (1.0 + 0.05)


def test_with_a_body_that_takes_longer_than_a_round_a_returner_enters_all_the_same():
    slow = Scenario(1, "ring", 5, 60, wait=300.0, faults=(Fault("power", (3,), 5.0, 30.0),))
    slow = replace(slow, conditions=replace(slow.conditions, bytes_per_second=150.0, chunk_bytes=16))
    world = World(slow).run()
    ((_, entered),) = entries(world).values()
    assert entered is not None
    assert world.used[2, 59] == [1, 3]


def test_a_returner_between_a_slow_neighbor_and_one_ahead_of_it_enters_with_the_one_ahead():
    """Rounds that it sits out end without the slow one, which is some rounds behind at the other end of the ring."""
    slow = Fault("slow", (7,), 0.0, math.inf, times=20.0)
    scenario = Scenario(1, "ring", 8, 25, wait=600.0, pace=0.3, faults=(slow, Fault("freeze", (6,), 8.0, 25.0)))
    world = World(replace(scenario, disk=(0.0, 0.02))).run()
    entered = {way.life.rank: way.entered for way in world.returns}
    assert entered[6] is not None
    assert all(6 in world.used[5, number] for number in range(entered[6], 25))


# -- mutations ---------------------------------------------------------------------------------------------------------


def a_stale_body_is_released(patch):
    """As before: it goes on with its own body as soon as it is in the others' round."""
    patch.setattr(Entry, "_may_enter", lambda self, number, *, led: not led)


def it_waits_for_no_body(patch):
    patch.setattr(Entry, "over_at", lambda self, number, awaited, since, now: now)


def it_waits_for_all_bodies(patch):
    """However far the others go on meanwhile."""
    patch.setattr(Entry, "over_at", lambda self, number, awaited, since, now: math.inf if awaited else now)


def it_is_never_waited_for(patch):
    waited_for = Membership.waited_for

    def hard(self, rank, number, now):
        return self[rank].enters == 0 and not self.incarnations.get(rank) and waited_for(self, rank, number, now)

    patch.setattr(Membership, "waited_for", hard)


def it_releases_while_it_adopts(patch):
    sit_out = WorldLearner.sit_out

    def eager(self, number):
        sit_out(self, number)
        self.release(number)

    patch.setattr(WorldLearner, "sit_out", eager)


def an_incarnation_is_named_before_it_is_on_disk(patch):
    note = Saver.note_incarnation

    def late(self, incarnation):
        import asyncio

        asyncio.get_running_loop().call_later(2.0, note, self, incarnation)

    patch.setattr(Saver, "note_incarnation", late)


def a_new_disk_counts_incarnations_from_one(patch):
    renewal = Entry.renewal.fget

    def forgetful(self):
        return None if renewal(self) is None or self._renewed else self.incarnation + 1

    patch.setattr(Entry, "renewal", property(forgetful))


def incarnations_stay(patch):
    patch.setattr(Core, "renew", lambda self, incarnation, now: self.entry.renew(self.entry.incarnation) or [])


def an_adoption_looks_like_a_mix(patch):
    mix = Mass.mix
    patch.setattr(Mass, "mix", lambda self, number: replace(mix(self, number), adopted=False))


MUTATIONS = {
    a_stale_body_is_released: 0,
    it_waits_for_no_body: 0,
    it_waits_for_all_bodies: 0,
    it_is_never_waited_for: 0,
    it_releases_while_it_adopts: 0,
    an_incarnation_is_named_before_it_is_on_disk: 0,
    incarnations_stay: 0,
    an_adoption_looks_like_a_mix: 0,
}
"""Mutations, and the seed that found each when this was written, which is played first."""


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_mutation_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    assert any(why(generate_returns(seed)) for seed in (MUTATIONS[mutation], *range(RETURNS)))
