"""Returns: peers whose rounds were run without them adopt their neighbors' bodies, and are mixed again."""

import math
from dataclasses import replace

import pytest

from dpeer.peer.core.membership import Membership
from dpeer.peer.core.returner import Entry
from tests.world.checking import found_in
from tests.world.disk import Files
from tests.world.faults import Fault
from tests.world.learner import WorldLearner
from tests.world.scenario import Scenario
from tests.world.world import World


def away(*faults, topology="ring", size=8, rounds=40, private=True):
    world = World(Scenario(1, topology, size, rounds, wait=300.0, faults=faults, private=private)).run()
    assert all(life.outcome.status == "done" for life in world.present if not life.process.dead)
    return world


def entries(world):
    """By rank, how many rounds each return has sat out and the round in which it has entered."""
    return {way.life.rank: (way.last - way.since + 1, way.entered) for way in world.returns}


@pytest.mark.parametrize("what", ["power", "lose"])
def test_a_peer_that_was_away_adopts_and_is_mixed_in_its_first_round(what):
    """A lost disk is a return like another, where no release is charged."""
    world = away(Fault(what, (3,), 5.0, 33.0), private=False)
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
    world = away(Fault("power", (3,), 5.0, 30.0), Fault("power", (4,), 35.2, math.inf))
    ((_, entered),) = entries(world).values()
    assert world.adopted[3, entered - 1] == [2]
    assert 3 in world.used[2, entered]


@pytest.fixture
def rounds_of_a_second(monkeypatch):
    """Training takes a second, and whatever else a peer does no time."""

    def train(self, number, *, share):
        self._world.begins(self._life, number, self.next, trains=True)
        self._life.costs.owe(1.0)
        self._base = self.body
        return 0.0

    monkeypatch.setattr(WorldLearner, "train", train)


@pytest.mark.parametrize("seconds", [25.0, 25.6])
def test_no_other_peer_waits_for_one_that_comes_back(seconds, rounds_of_a_second, monkeypatch):
    """Rounds of a second, and of a returner's way back none of the others' lasts a tenth longer."""
    monkeypatch.setattr("tests.world.world.Costs.before", lambda self, job: 0.0)
    world = away(Fault("crash", (3,), 5.0, seconds))
    ((_, entered),) = entries(world).values()
    back = min(time for (rank, number), time in world.began.items() if rank == 3 and time > 5.0 + seconds)
    began = {key: time for key, time in world.began.items() if key[0] != 3}
    lasted = [began[rank, number + 1] - time for (rank, number), time in began.items()
              if number < entered + 1 and time > back - 1.0]  # fmt: skip
    assert len(lasted) >= 7
    assert max(lasted) < 1.1 * (1.0 + 0.05)


def with_slow_bodies():
    """A peer is away, and a body takes longer than a round."""
    slow = Scenario(1, "ring", 5, 60, wait=300.0, faults=(Fault("power", (3,), 5.0, 30.0),))
    return World(replace(slow, conditions=replace(slow.conditions, bytes_per_second=235.0, chunk_bytes=16))).run()


def test_with_a_body_that_takes_longer_than_a_round_a_returner_enters_all_the_same():
    world = with_slow_bodies()
    ((_, entered),) = entries(world).values()
    assert entered is not None
    assert world.used[2, 59] == [1, 3]


def test_one_that_announces_no_entry_is_found(monkeypatch):
    """Its neighbors wait for it in no round, and go on before its bodies are there."""
    it_announces_nothing(monkeypatch)
    with pytest.raises(AssertionError, match="without rank"):
        with_slow_bodies()


def enters_soon(topology, disk):
    """A peer that was away for 30 s enters one of the next two rounds, although its disk takes `disk` of one."""
    world = World(Scenario(1, topology, 8, 45, wait=300.0, faults=(Fault("power", (3,), 5.0, 30.0),), disk=(disk,)))
    world.run()
    ((sat_out, entered),) = entries(world).values()
    since = entered - sat_out
    there = max(number for (rank, number), at in world.began.items() if rank != 3 and at <= world.began[3, since])
    assert there - since >= 10
    assert entered <= there + 2, f"enters in round {entered}, and others were in round {there} when it was back"
    assert any(3 in world.used[rank, entered] for rank in world.graphs.at(entered, 3).out_neighbors)


@pytest.mark.parametrize(
    ("topology", "disk"),
    [("ring", 0.4), ("one-peer-exponential", 0.0), ("random-matching", 0.4), ("fresh-directed", 0.0)],
)
def test_a_returner_enters_soon(topology, disk, rounds_of_a_second):
    """On graphs whose edges stay, and on those where they change by round."""
    enters_soon(topology, disk)


@pytest.mark.parametrize("topology", ["ring", "one-peer-exponential"])
def test_a_checkpoint_of_each_round_that_it_sits_out_is_found(topology, rounds_of_a_second, monkeypatch):
    """The others run on while it writes, and it misses one entry after the other."""
    complete = Files.complete
    monkeypatch.setattr(Files, "complete", lambda self, entry, **how: complete(self, entry))
    with pytest.raises(AssertionError, match="and others were in round"):
        enters_soon(topology, 0.4)


def between_a_slow_neighbor_and_one_ahead():
    """The round in which rank 6 of a ring has entered, and the world; rank 7 takes twenty times as long."""
    slow = Fault("slow", (7,), 0.0, math.inf, times=20.0)
    scenario = Scenario(1, "ring", 8, 25, wait=600.0, pace=0.3, faults=(slow, Fault("freeze", (6,), 8.0, 25.0)))
    world = World(replace(scenario, disk=(0.0, 0.02))).run()
    return next(way.entered for way in world.returns if way.life.rank == 6), world


def test_a_returner_between_a_slow_neighbor_and_one_ahead_of_it_enters_with_the_one_ahead():
    """Rounds that it sits out end without the slow one, which is some rounds behind at the other end of the ring."""
    entered, world = between_a_slow_neighbor_and_one_ahead()
    assert entered is not None
    assert all(6 in world.used[5, number] for number in range(entered, 25))


# -- mutations ---------------------------------------------------------------------------------------------------------


def a_stale_body_is_released(patch):
    """As before: it goes on with its own body as soon as it is in the others' round."""
    patch.setattr(Entry, "_may_enter", lambda self, number: True)


def it_waits_for_no_body(patch):
    verdict = Entry.verdict

    def hasty(self, number):
        found = verdict(self, number)
        return "over" if found == "wait" else found

    patch.setattr(Entry, "verdict", hasty)


def it_waits_for_those_who_have_sat_the_round_out(patch):
    """Two returners side by side wait for each other."""

    def credulous(self, number):
        near = self._schedule.at(number).in_neighbors
        return [one for one in near if self._members.is_there(one) and not self._inbox.has(one, number)]

    patch.setattr(Entry, "coming", credulous)


def it_enters_without_a_body(patch):
    def eager(self, number):
        return all(one.current_round <= number for one in self._near(number))

    patch.setattr(Entry, "_may_enter", eager)


def it_announces_nothing(patch):
    patch.setattr(Entry, "_entry", lambda self, number: self._schedule.rounds)


def it_is_never_waited_for(patch):
    waited_for = Membership.waited_for
    returners = set()

    def hard(self, rank, number, now):
        if self[rank].enters:
            returners.add((id(self), rank))
        return (id(self), rank) not in returners and waited_for(self, rank, number, now)

    patch.setattr(Membership, "waited_for", hard)


def it_releases_while_it_adopts(patch):
    sit_out = WorldLearner.sit_out

    def eager(self, number):
        sit_out(self, number)
        self._base = self.body
        self.release(number)

    patch.setattr(WorldLearner, "sit_out", eager)


MUTATIONS = {
    a_stale_body_is_released: 0,
    it_waits_for_no_body: 0,
    it_waits_for_those_who_have_sat_the_round_out: 0,
    it_enters_without_a_body: 0,
    it_is_never_waited_for: 5,
    it_releases_while_it_adopts: 0,
}
"""Mutations, and the seed that found each when this was written, which is played first."""

test_a_mutation_is_found = found_in("returns", MUTATIONS)
