"""Islands of a divided federation: none runs ahead of a quorum, and after the cuts all train together again."""

import asyncio
import math

import pytest

from dpeer.peer.core import round_clock, waiting
from dpeer.peer.core.connection_setup import ConnectionSetup
from dpeer.peer.core.membership import Membership
from dpeer.peer.core.round_clock import RoundClock
from dpeer.peer.core.waiting import Waiting
from dpeer.simulation.network import Conditions
from tests.thinning import every
from tests.world.checking import found_in
from tests.world.faults import Fault
from tests.world.scenario import Scenario
from tests.world.world import World


@pytest.mark.parametrize("seconds", [20.0, 120.0])
def test_a_peer_that_is_cut_off_pauses_and_trains_with_the_others_again(seconds):
    """One of four, rounds of half a second: before, most rounds had no exchange anywhere after the cut."""
    world = World(Scenario(1, "ring", 4, 80, pace=0.5, faults=(Fault("part", (3,), 10.0, seconds),))).run()
    nothing = [(rank, number) for (rank, number), heard in world.used.items() if not heard]
    assert {rank for rank, _ in nothing} <= {3}
    assert len(nothing) <= 1
    if seconds < 60:  # else the others have ended
        assert all(life.outcome.status == "done" for life in world.present)
        assert all(len(world.used[rank, 79]) == 2 for rank in range(4))


def with_an_island(size):
    """Eight on a ring, of which the last ones are cut off for a while; and which of them have sat rounds out."""
    cut = Fault("part", tuple(range(8 - size, 8)), 20.0, 45.0)
    world = World(Scenario(size + 30, "ring", 8, 36, pace=4.0, wait=300.0, faults=(cut,))).run()
    return world, {rank for rank, _ in world.sat_out}


@pytest.mark.parametrize("size", every(3, range(1, 8)))
def test_of_an_island_of_every_size_the_larger_part_goes_on_and_the_other_comes_back(size):
    world, caught_up = with_an_island(size)
    assert all(life.outcome.status == "done" for life in world.present)
    assert caught_up == set(range(8 - size, 8) if size <= 4 else range(8 - size))
    assert all(len(world.used[rank, 35]) == 2 for rank in range(8))


def test_a_pause_ends_by_a_neighbor_that_is_heard_again_and_has_left_in_the_same_moment():
    """All messages that rank 2 sent in the cut come at once, its goodbye with the rest."""
    cuts = Fault("part", (0, 1), 10.61, 42.0), Fault("part", (0, 1), 74.05, 30.0), Fault("part", (0, 2), 125.3, 21.16)
    conditions = Conditions(latency=(0.001, 0.02), capacity=32, redial=(0.1, 2.0), notice=(0.0, 0.5))
    more = {"conditions": conditions, "faults": cuts}
    world = World(Scenario(7861, "one-peer-exponential", 3, 43, pace=2.0, wait=300.0, **more)).run()
    assert world.began[1, 42] == world.present[1].peer.core.members[2].gone_at


def test_two_of_four_are_no_quorum_where_a_quorum_is_a_number():
    """Of two halves none goes on, the one with rank 0 neither: ranks 2 and 3 have ended."""
    faults = Fault("lose", (0,), 111.0, 21.0), Fault("power", (1,), 118.0, 33.0)
    conditions = Conditions(latency=(0.001, 0.02), capacity=32, redial=(0.1, 2.0), notice=(0.0, 0.5))
    more = {"conditions": conditions, "faults": faults}
    world = World(Scenario(824, "ring", 4, 12, pace=8.0, quorum=2, wait=300.0, **more)).run()
    assert [life.outcome.status for life in world.present] == ["isolated", "isolated", "done", "done"]


def test_a_slow_peer_is_waited_for_and_none_ends():
    """One round of a quarter of an hour: a peer without progress is not a peer that is cut off."""
    slow = Fault("slow", (2,), 5.0, 900.0, times=900.0)
    world = World(Scenario(4, "ring", 5, 6, pace=1.0, faults=(slow,))).run()
    assert all(life.outcome.status == "done" for life in world.present)
    assert world.sat_out == set()
    assert all(len(heard) == 2 for heard in world.used.values())
    assert max(world.ended.values()) > 900


def test_three_and_three_of_eight_that_have_lost_two_end_with_their_models():
    lost = tuple(Fault("power", (rank,), 10.0, math.inf) for rank in (3, 7))
    world = World(Scenario(5, "ring", 8, 60, pace=1.0, faults=lost)).run()
    left = [world.present[rank] for rank in (0, 1, 2, 4, 5, 6)]
    assert {life.outcome.status for life in left} == {"isolated"}
    assert all(world.disks[life.rank].saved.next_round == life.outcome.completed_rounds for life in left)


LATE_TWO = Scenario(
    1, "ring", 5, 40, pace=0.05, wait=200.0, disk=(0.0, 0.02), conditions=Conditions(latency=(0.001, 0.2)),
    faults=(Fault("crash", (1,), 1.52, 94.9), Fault("crash", (0,), 8.58, 16.2)),
)  # fmt: skip
"""Two neighbors of a ring are resumed: one just before the others end, one when they have."""


def test_of_two_that_are_resumed_late_the_others_wait_for_the_one_that_comes_before_they_end():
    world = World(LATE_TWO).run()
    assert world.adopted[0, 39] == [4], "it has announced nothing yet when rank 4 completes the last round"
    assert [life.rank for life in world.present if getattr(life.outcome, "status", "") != "done"] == [1]


# -- mutations ---------------------------------------------------------------------------------------------------------


def any_neighbor_will_do(patch):
    """A peer that has mixed nothing goes on where a neighbor is there, however far that one has come."""
    held = Waiting.blocked

    def lenient(self, number):
        why = held(self, number)
        there = any(self._members.is_there(one.rank) for one in self._members.all())
        return None if why is waiting.NO_NEIGHBOR and there else why

    patch.setattr(Waiting, "blocked", lenient)


def an_island_may_advance(patch):
    patch.setattr(Waiting, "blocked", lambda self, number: None)


def alone_it_may_go_on(patch):
    """Only the quorum counts: the first one of two has it by itself."""
    held = Waiting.blocked
    patch.setattr(
        Waiting, "blocked", lambda self, number: why if (why := held(self, number)) is not waiting.NO_NEIGHBOR else None
    )


def only_a_lone_peer_pauses(patch):
    """A pair runs ahead."""
    held = Waiting.blocked
    patch.setattr(
        Waiting,
        "blocked",
        lambda self, number: why if (why := held(self, number)) is not round_clock.NO_QUORUM else None,
    )


def presence_expires(patch):
    """A peer without news for some rounds is no member any more."""
    find = RoundClock.find_quorum

    def forgetful(self):
        known, completed = self._members, self._completed
        self._members = known[completed[known] + 3 >= completed.max()]
        try:
            return find(self)
        finally:
            self._members = known

    patch.setattr(RoundClock, "find_quorum", forgetful)


def hearsay_is_renewed(patch):
    """A peer that is mentioned is there, and as far as the peer that mentions it."""
    note = ConnectionSetup.note

    def echo(self, link, neighbor, number, message, now):
        note(self, link, neighbor, number, message, now)
        clock, table = self._round_clock, message.presence
        for rank, completed in enumerate(clock.parse(table) if table else ()):
            if completed and rank != clock._rank:
                clock.reached(rank, number)

    patch.setattr(ConnectionSetup, "note", echo)


def a_goodbye_lowers_the_quorum(patch):
    """A peer that has left counts as done."""
    goodbye = Membership.goodbye

    def final(self, neighbor, reason, now, back_within=0.0):
        goodbye(self, neighbor, reason, now, back_within)
        self.passed.__self__.reached(neighbor.rank, self.passed.__self__.rounds)

    patch.setattr(Membership, "goodbye", final)


def a_peer_that_is_behind_gives_way(patch):
    """As before: the rounds of a minority that has run ahead are the federation's."""
    patch.setattr(RoundClock, "passed", lambda self, number: True)


def each_half_is_a_quorum(patch):
    """Of two halves both go on."""

    def half(self):
        best = sorted(self._completed.tolist(), reverse=True)
        return best[(len(best) - 1) // 2]

    patch.setattr(RoundClock, "find_quorum", half)


def only_neighbors_count(patch):
    """News of other peers' neighbors is not taken in."""
    patch.setattr(RoundClock, "merge", lambda self, *tables: False)


def a_peer_without_progress_is_no_member(patch):
    """A timer enters the rule: a peer that has completed no round for 15 seconds does not count."""
    find, rose = RoundClock.find_quorum, {}

    def lately(self):
        known, now, times = self._members, asyncio.get_running_loop().time(), rose.setdefault(self, {})
        for rank, done in enumerate(self._completed.tolist()):
            if done > times.get(rank, (-1, now))[0]:
                times[rank] = done, now
        self._members = known[[times.get(rank, (0, now))[1] + 15 > now for rank in known]]
        try:
            return find(self) if len(self._members) else 0
        finally:
            self._members = known

    patch.setattr(RoundClock, "find_quorum", lately)


def further_ahead_than_the_slack(patch):
    held = Waiting.blocked
    patch.setattr(Waiting, "blocked", lambda self, number: held(self, number - 3))


def pauses_last(patch, news_at):
    """The begin of `--wait` is another."""
    begin = Waiting._begin_pause

    def another(self, wait, now):
        begin(self, wait, now)
        self._news_at, wait.since = news_at, min(news_at, now)

    patch.setattr(Waiting, "_begin_pause", another)


def pauses_never_end(patch):
    pauses_last(patch, math.inf)


def a_peer_that_is_cut_off_ends_at_once(patch):
    pauses_last(patch, -math.inf)


MUTATIONS = {
    each_half_is_a_quorum: 32,
    only_neighbors_count: 14,
    a_peer_without_progress_is_no_member: 5,
    further_ahead_than_the_slack: 14,
    pauses_never_end: 17,
    a_peer_that_is_cut_off_ends_at_once: 0,
    an_island_may_advance: 0,
    alone_it_may_go_on: 0,
    any_neighbor_will_do: 71,
    only_a_lone_peer_pauses: 52,
    presence_expires: 6,
    hearsay_is_renewed: 6,
    a_goodbye_lowers_the_quorum: 18,
    a_peer_that_is_behind_gives_way: 14,
}

test_a_mutation_is_found = found_in("islands", MUTATIONS)
