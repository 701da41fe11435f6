"""Who is told what, and who may go on with whom."""

import pytest

from dpeer.peer.core.schedule import ListedGraph, Schedule, cut_off
from dpeer.topology import build
from tests.peer.conftest import from_edges


def whole(topology, rounds):
    return ListedGraph(topology, range(topology.size), rounds)


@pytest.mark.parametrize("name", ["ring", "star", "full"])
def test_no_heartbeat_is_due_where_edges_are_mutual_and_stay(name):
    topology = build(name, 5)
    assert all(
        Schedule(whole(topology, 9), rank).listeners(number) == set() for rank in range(5) for number in range(9)
    )


def test_a_neighbor_that_only_sends_gets_a_heartbeat_every_round():
    schedule = Schedule(whole(build("exponential-directed", 8), 3), 0)
    assert [schedule.listeners(number) for number in range(4)] == [{6, 7}] * 3 + [{4, 6, 7}]


def test_the_last_and_the_next_senders_get_a_heartbeat():
    topology = from_edges(4, [(1, 0)], [(0, 3)], [(2, 0), (3, 0)], [])
    schedule = Schedule(whole(topology, 3), 0)
    assert [schedule.listeners(number) for number in range(4)] == [set(), {1, 2}, set(), {2, 3}]


def test_without_edges_any_distance_fits():
    topology = from_edges(2, [(0, 1)], [], [], [], [(1, 0)], [])
    schedule = Schedule(whole(topology, 9), 0)
    assert schedule.fits(4, 1, 1)
    assert schedule.fits(1, 1, 4)
    assert not schedule.fits(4, 1, 0)  # needs round 0's body, which is gone
    assert schedule.fits(1, 1, 0)
    assert schedule.fits(5, 1, 4)
    assert not schedule.fits(5, 1, 3)  # completed round 4 without rank 1
    assert not schedule.fits(0, 1, 6)  # rank 1 has no more the body of round 4
    assert schedule.fits(1, 1, 5)
    assert not schedule.fits(4, 1, 2**53 - 1)
    assert not schedule.fits(2**53 - 1, 1, 2**53 - 1)
    assert not schedule.fits(9, 1, 10)


def test_bodies_are_awaited_of_who_is_in_the_round_by_the_same_list_or_has_none_left_by_its_own():
    ring = build("ring", 3)
    schedule = Schedule(ListedGraph(ring, range(3), 2, b"ended"), 0)
    schedule.begin(1)
    schedule.use(ListedGraph(ring, range(3), 5, b"longer"))
    assert schedule.fitting(2) == set()
    schedule.begin(2)
    schedule.use(ListedGraph(ring, range(3), 5, b"other"))
    schedule.begin(3)
    assert schedule.fitting(1) == {b"", b"ended"}
    assert schedule.fitting(2) == {b"", b"longer", b"ended"}
    assert b"longer" not in schedule.fitting(3)


@pytest.mark.parametrize("name", ["ring", "exponential-directed"])
def test_neighbors_of_every_round_fit_when_one_round_apart(name):
    schedule = Schedule(whole(build(name, 3), 9), 0)
    for here in range(10):
        for there in range(10):
            assert schedule.fits(here, 1, there) is (abs(here - there) <= 1)


def test_what_is_in_the_checkpoint_can_still_be_sent():
    assert not cut_off(4, sender=5, receiver=3)
    assert cut_off(3, sender=5, receiver=3)
    assert not cut_off(3, sender=5, receiver=4)
    assert cut_off(4, sender=3, receiver=5)
