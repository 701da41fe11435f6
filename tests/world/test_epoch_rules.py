"""Rules of epochs, and for each an accident that ends well, and does not where the rule is broken."""

import math

import pytest

from dpeer.peer.core.epoch_chain import EpochChain
from dpeer.peer.core.epoch_follower import EpochFollower
from dpeer.peer.core.send_queue import SendQueue
from dpeer.simulation.network import Conditions
from tests.world.epochs import Change, EpochWorld, before_each_body
from tests.world.faults import Fault
from tests.world.scenario import Scenario


def heard_and_not_answered(island, at, seconds, size=5):
    """Nothing passes from an island to the others, which it hears."""
    rest = [rank for rank in range(size) if rank not in island]
    return tuple(Fault("stall", (one, other), at, seconds) for one in island for other in rest)


def played(topology, *changes, faults=(), size=5, rounds=40, **scenario):
    """A run in which the disk takes no time."""
    plain = Scenario(3, topology, size, rounds, wait=200.0, faults=faults, **{"disk": (0.0,), **scenario})
    return EpochWorld(plain, changes).run()


def statuses(world):
    return {life.rank: life.outcome.status for life in world.present}


def an_epoch_of_two_that_hear_the_others_and_are_not_heard():
    """The others run its first round without it: with a deadline they wait for no body for long."""
    faults = heard_and_not_answered((3, 4), 5.9, 40.0)
    world = played("ring", Change(6.0, 4, leave=(0,)), faults=faults, deadline=2.0)
    ((_, epoch, _),) = world.handed
    within, outside = world.first_round(epoch)
    assert not within
    assert outside == {*range(5)}
    assert set(statuses(world).values()) == {"done"}, "who had accepted it goes on in the old one"


def two_that_are_not_heard_evict_the_other_three():
    faults = heard_and_not_answered((0, 1), 5.9, 40.0)
    world = played("full", Change(6.0, 0, leave=(2, 3, 4)), faults=faults, deadline=2.0)
    ((_, epoch, _),) = world.handed
    assert world.first_round(epoch) == (set(), {*range(5)})
    assert set(statuses(world).values()) == {"done"}


def a_twin_is_heard_of_when_the_other_stands():
    """Rank 4 was cut off and has been handed another change meanwhile."""
    changes = Change(6.0, 1, leave=(0,)), Change(30.0, 4, leave=(3,), blind=True)
    world = played("ring", *changes, faults=(Fault("part", (4,), 4.0, 40.0),), rounds=80)
    (_, first, _), (_, twin, _) = world.handed
    assert first.number == twin.number
    assert {world.ran.get((rank, 79)) for rank in first.members} == {first}


def an_epoch_is_on_disk_some_time_after_it_came():
    world = played("ring", Change(3.0, 1, join=1), size=4, rounds=24, disk=(0.0, 2.0))
    assert set(statuses(world).values()) == {"done"}


def three_numbers_of_which_each_comes_first_somewhere():
    """One key signs all three after epoch 0. As twins they would be void; here the later ones say so of the others."""
    changes = [Change(6.0, number, leave=(4,), later=1, blind=True, made_up=number) for number in range(3)]
    world = played("full", *changes)
    assert {epoch.number for _, epoch, _ in world.handed} == {1, 2, 3}
    assert statuses(world) == {0: "done", 1: "done", 2: "done", 3: "done", 4: "left"}
    assert {epoch.number for epoch in world.ran.values()} == {0, 1}


def one_that_is_evicted_has_died_before():
    """Long rounds: its neighbors dial it anew until the epoch takes its key from them, and not in that round."""
    faults = (Fault("power", (3,), 40.0, math.inf),)
    world = played("full", Change(2.0, 1, evict=(3,)), faults=faults, size=4, rounds=12, pace=40.0)
    assert [life.outcome.status for life in world.present[:3]] == ["done"] * 3


# -- broken rules ------------------------------------------------------------------------------------------------------


def begins_without_a_quorum(patch):
    patch.setattr(EpochChain, "agreed", lambda self, epoch: True)


def a_void_epoch_is_never_given_up(patch):
    """It begins nowhere all the same, since no quorum has accepted it: those that have wait for ever."""
    patch.setattr(EpochChain, "_passed", lambda self, epoch: False)


def skips_the_old_quorum(patch):
    def agreed(self, epoch):
        return self._clock.is_quorum(epoch.ranks, self._ranks(epoch, within=True, completed=0))

    patch.setattr(EpochChain, "agreed", agreed)


def a_late_twin_counts(patch):
    """Whenever it comes: those that hear of it first leave an epoch that stands."""
    patch.setattr(EpochChain, "stands", lambda self, epoch: epoch is self._first)


def accepted_before_it_is_on_disk(patch):
    consider = EpochChain.consider

    def hasty(self):
        record = consider(self)
        if record is not None:
            self.kept(record)
        return record

    patch.setattr(EpochChain, "consider", hasty)


def dials_whoever_is_silent(patch):
    """Also one that is no member any more."""
    patch.setattr(EpochFollower, "admitted", property(lambda self: range(9), lambda self, ranks: None), raising=False)


def takes_their_word_for_void_epochs(patch):
    """Each takes the number that it hears of first, and no quorum has accepted any."""

    def following(self, last, void):
        found = sorted(
            (one for one in self.children(last.digest) if one.digest not in void), key=lambda one: one.number
        )
        return next((one for one in found if one.begins > self.entered), None)

    patch.setattr(EpochChain, "_next", following)


ACCIDENTS = {
    begins_without_a_quorum: an_epoch_of_two_that_hear_the_others_and_are_not_heard,
    a_void_epoch_is_never_given_up: an_epoch_of_two_that_hear_the_others_and_are_not_heard,
    skips_the_old_quorum: two_that_are_not_heard_evict_the_other_three,
    a_late_twin_counts: a_twin_is_heard_of_when_the_other_stands,
    takes_their_word_for_void_epochs: three_numbers_of_which_each_comes_first_somewhere,
    dials_whoever_is_silent: one_that_is_evicted_has_died_before,
    accepted_before_it_is_on_disk: an_epoch_is_on_disk_some_time_after_it_came,
}
"""Broken rules, and the accident that shows each."""


@pytest.mark.parametrize("accident", dict.fromkeys(ACCIDENTS.values()), ids=lambda accident: accident.__name__)
def test_an_accident_ends_well(accident):
    accident()


@pytest.mark.parametrize("broken", ACCIDENTS, ids=lambda broken: broken.__name__)
def test_a_broken_rule_shows(broken, monkeypatch):
    broken(monkeypatch)
    with pytest.raises(AssertionError):
        ACCIDENTS[broken]()


# -- documents go before bodies ----------------------------------------------------------------------------------------


def along_a_line_whose_links_are_slow(patch, to=0):
    """A body takes longer than training, so that one waits on each link; and documents go with bodies alone."""
    before_each_body(patch)
    slow = Conditions(latency=(0.001, 0.002), bytes_per_second=500.0)
    world = played("line", Change(4.0, to, leave=(4,)), rounds=16, pace=0.01, conditions=slow)
    world.without_faults()
    assert not world.violations
    assert statuses(world) == {0: "done", 1: "done", 2: "done", 3: "done", 4: "left"}
    ((_, epoch, _),) = world.handed
    return [world.knew[rank, epoch] for rank in range(5)], epoch.begins


@pytest.mark.parametrize("to", [0, 2])
def test_on_a_line_an_epoch_goes_a_hop_a_round(to, monkeypatch):
    """R_k = r + D + 3, where D = 4: whoever is that far knows it when round r + D + 1 begins."""
    knew, begins = along_a_line_whose_links_are_slow(monkeypatch, to)
    assert knew == [begins - 6 + abs(rank - to) for rank in range(5)]


def test_a_document_that_goes_after_the_bodies_shows(monkeypatch):
    """It takes two rounds a hop."""
    choose = SendQueue.choose

    def late(self, *, waits):
        held = {kind: frames for kind, frames in self._small.items() if kind.startswith("epoch")}
        if not held or not self.bodies:
            return choose(self, waits=waits)
        self._small = {kind: frames for kind, frames in self._small.items() if kind not in held}
        try:
            return choose(self, waits=waits)
        finally:
            self._small |= held

    monkeypatch.setattr(SendQueue, "choose", late)
    with pytest.raises(AssertionError):
        along_a_line_whose_links_are_slow(monkeypatch)
