"""Start of a federation whose ranks come over a long time: no peer begins too early, and all that are there begin."""

import math

import pytest

from dpeer.exceptions import PeersMissing, ProtocolError, Refused
from dpeer.peer.core.connection_setup import ConnectionSetup
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.round_clock import RoundClock
from dpeer.peer.core.waiting import Waiting
from dpeer.simulation.network import Conditions
from tests.world.checking import found_in
from tests.world.faults import Fault
from tests.world.scenario import Scenario
from tests.world.world import World


def begun(world):
    """When each rank has begun its first round."""
    first = {}
    for (rank, _), at in sorted(world.began.items(), key=lambda entry: entry[1]):
        first.setdefault(rank, at)
    return first


def test_all_begin_when_the_last_rank_has_come_however_far_it_is():
    world = World(Scenario(1, "ring", 8, 4, wait=8000.0, arrivals=(0, 9, 90, 30, 200, 40, 0, 7))).run()
    times = begun(world)
    assert len(times) == 8
    assert 200 < min(times.values()) <= max(times.values()) < 205
    assert all(len(heard) == 2 for heard in world.used.values()), "none missed a round"


def test_a_rank_that_was_there_and_is_away_does_not_hold_up_the_start_and_comes_back():
    crash = Fault("crash", (1,), 40.0, 200.0)
    world = World(Scenario(1, "ring", 4, 40, pace=10.0, wait=8000.0, arrivals=(0, 0, 0, 100.0), faults=(crash,))).run()
    times = begun(world)
    assert max(times[rank] for rank in (0, 2, 3)) < 105
    assert times[1] > 240
    assert all(life.outcome.status == "done" for life in world.present)
    assert 1 in world.used[0, 39]


@pytest.mark.parametrize("quorum", [4, 5])
def test_as_many_ranks_as_the_quorum_asks_for_begin_and_a_late_one_comes_in(quorum):
    arrivals = (0, 5, 10, 15, 20 if quorum == 5 else math.inf, 150.0)
    world = World(Scenario(2, "ring", 6, 60, pace=5.0, wait=8000.0, quorum=quorum, arrivals=arrivals)).run()
    times = begun(world)
    agreed = sorted(arrivals)[quorum - 1]
    early = [at for rank, at in times.items() if rank < 4]
    assert agreed < min(early) <= max(early) < agreed + 65
    assert times[5] > 150
    assert all(life.outcome.status == "done" for life in world.present)
    assert 5 in world.used[0, 59]


def test_too_few_begin_nothing_and_name_who_has_not_come():
    world = World(Scenario(3, "ring", 6, 4, wait=100.0, quorum=4, arrivals=(0, 0, 0, *[math.inf] * 3))).run()
    assert not world.began
    for life in world.present:
        assert isinstance(life.outcome, PeersMissing)
        assert str(life.outcome).startswith("ranks 3, 4, 5 did not appear within 100 s (--wait): ")


@pytest.mark.parametrize("arrivals", [(300.0, 350.0), (300.0, math.inf)], ids=["both late", "one never comes"])
def test_ranks_that_come_after_the_end_wait_and_name_whom_they_miss(arrivals):
    """Side by side on a ring, they reach the others through each other only, or not at all."""
    world = World(Scenario(6, "ring", 6, 4, wait=100.0, quorum=4, arrivals=(0, 0, 0, 0, *arrivals))).run()
    assert {life.outcome.status for life in world.present[:4]} == {"done"}
    late = world.present[4:]
    assert len(late) == sum(at < math.inf for at in arrivals)
    for life in late:
        assert isinstance(life.outcome, PeersMissing)
        assert str(life.outcome).startswith("ranks 0, 1, 2, 3")


def test_a_site_with_other_settings_ends_alone_if_the_others_have_accepted_each_other_and_is_taken_in_corrected():
    world = World(Scenario(4, "ring", 4, 4, wait=8000.0, arrivals=(0, 100.0, 300.0, 50.0), mistaken=(1,))).run()
    first, second = world.lives[1]
    assert isinstance(first.outcome, Refused)
    assert all(len(world.lives[rank]) == 1 for rank in (0, 2, 3))
    assert all(life.outcome.status == "done" for life in world.present)
    assert min(begun(world).values()) > second.since


# -- mutations ---------------------------------------------------------------------------------------------------------


def neighbors_are_enough(patch):
    """As before: a peer begins once its neighbors are there."""
    patch.setattr(RoundClock, "started", property(lambda self: True))


def word_of_others_is_not_taken(patch):
    patch.setattr(RoundClock, "merge", lambda self, table: False)


def a_half_is_enough(patch):
    patch.setattr(RoundClock, "needed", property(lambda self: len(self) // 2))


def whoever_is_away_was_never_there(patch):
    """The table is not monotone: death takes the entry away."""
    tick = Membership.tick

    def forgetful(self, now):
        died = tick(self, now)
        clock = self.passed.__self__
        for one in died:
            if clock[one.rank] == 0 and self.current_round == 0:
                clock._completed[one.rank] = -1
        return died

    patch.setattr(Membership, "tick", forgetful)


def neighbors_are_waited_for_without_end(patch):
    """Though enough have come."""
    patch.setattr(RoundClock, "assembled", property(lambda self: False))
    patch.setattr(
        RoundClock, "started", property(lambda self: len(self.there) >= self.needed or max(self._completed) > 0)
    )


def a_mistake_ends_all(patch):
    patch.setattr(Waiting, "accepted", property(lambda self: False, lambda self, value: None), raising=False)


def a_mistake_ends_none(patch):
    patch.setattr(Waiting, "refuse", lambda self, refusal, now: None)


def one_that_comes_late_is_turned_away(patch):
    """Although the others run."""
    judge = ConnectionSetup._judge

    def closed(self, hello, dialled):
        if (self._members.current_round > 0) != (hello.next_round > 0):
            raise ProtocolError("mismatch", "closed")
        judge(self, hello, dialled)

    patch.setattr(ConnectionSetup, "_judge", closed)


MUTATIONS = {
    neighbors_are_enough: 2,
    word_of_others_is_not_taken: Scenario(1, "ring", 4, 4, wait=30.0, arrivals=(0.0, 1.0, 1.0, 1.0)),
    a_half_is_enough: 11,
    neighbors_are_waited_for_without_end: Scenario(
        2, "ring", 6, 4, wait=100.0, quorum=4, arrivals=(0.0, 1.0, 1.0, 1.0, math.inf, math.inf)
    ),
    a_mistake_ends_all: 5,
    a_mistake_ends_none: Scenario(1, "ring", 3, 4, wait=40.0, arrivals=(1.0, 0.0, 1.0), mistaken=(1,)),
    one_that_comes_late_is_turned_away: Scenario(
        2, "ring", 6, 60, pace=5.0, wait=300.0, quorum=4, arrivals=(0.0, 5.0, 10.0, 15.0, math.inf, 150.0)
    ),
}

test_a_mutation_is_found = found_in("assemblies", MUTATIONS)


def test_where_the_center_of_a_star_has_other_settings_all_end_with_the_reason():
    arrivals = (291.54, 277.81, 94.62, 291.14, 276.88)
    conditions = Conditions(latency=(0.001, 0.002), redial=(0.1, 1.0))
    more = {"conditions": conditions, "quorum": 5, "arrivals": arrivals, "mistaken": (0,)}
    world = World(Scenario(5742, "star", 5, 3, pace=20.0, wait=4000.0, **more)).run()
    assert {type(life.outcome) for life in world.present} == {Refused}


def test_a_table_that_forgets_is_found(monkeypatch):
    whoever_is_away_was_never_there(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_rank_that_was_there_and_is_away_does_not_hold_up_the_start_and_comes_back()
