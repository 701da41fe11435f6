"""Who is told what, and who may go on with whom."""

import pytest

from dpeer.peer.core.schedule import Piece, Schedule, cut_off
from dpeer.topology import Neighborhood, Row, build
from tests.peer.conftest import from_edges


@pytest.mark.parametrize("name", ["ring", "star", "full"])
def test_no_heartbeat_is_due_where_edges_are_mutual_and_stay(name):
    topology = build(name, 5)
    assert all(Schedule(topology, rank, 9).listeners(number) == set() for rank in range(5) for number in range(9))


def test_a_neighbor_that_only_sends_gets_a_heartbeat_every_round():
    schedule = Schedule(build("exponential-directed", 8), 0, 3)
    assert [schedule.listeners(number) for number in range(4)] == [{6, 7}] * 3 + [{4, 6, 7}]


def test_the_last_and_the_next_senders_get_a_heartbeat():
    topology = from_edges(4, [(1, 0)], [(0, 3)], [(2, 0), (3, 0)], [])
    schedule = Schedule(topology, 0, 3)
    assert [schedule.listeners(number) for number in range(4)] == [set(), {1, 2}, set(), {2, 3}]


def test_without_edges_any_distance_fits():
    topology = from_edges(2, [(0, 1)], [], [], [], [(1, 0)], [])
    schedule = Schedule(topology, 0, 9)
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


@pytest.mark.parametrize("name", ["ring", "exponential-directed"])
def test_neighbors_of_every_round_fit_when_one_round_apart(name):
    schedule = Schedule(build(name, 3), 0, 9)
    for here in range(10):
        for there in range(10):
            assert schedule.fits(here, 1, there) is (abs(here - there) <= 1)


def test_what_is_in_the_checkpoint_can_still_be_sent():
    assert not cut_off(4, sender=5, receiver=3)
    assert cut_off(3, sender=5, receiver=3)
    assert not cut_off(3, sender=5, receiver=4)
    assert cut_off(4, sender=3, receiver=5)


# -- pieces ------------------------------------------------------------------------------------------------------------


def growing(rank):
    """A ring of three that rank 3 joins in round 4, and rank 1 leaves in round 6; 9 rounds."""
    schedule = Schedule(build("ring", 3), rank, 9)
    pieces = [
        Piece(0, build("ring", 3), frozenset({0, 1, 2})),
        Piece(4, build("ring", 4), frozenset(range(4)), b"one"),
        Piece(6, Without(build("ring", 4)), frozenset({0, 2, 3}), b"two"),
    ]
    schedule.follow(pieces, 9)
    return schedule


class Without:
    """The ring 0, 2, 3."""

    size = 3

    def __init__(self, graphs):
        self._graphs = graphs

    def at(self, number, rank):
        others = tuple(sorted({0, 2, 3} - {rank}))
        return Neighborhood(rank, Row(rank, dict.fromkeys((0, 2, 3), 1 / 3)), others, others)

    def connections(self, rank, rounds):
        return tuple(sorted({0, 2, 3} - {rank}))


def test_each_round_has_the_graph_of_its_epoch():
    schedule = growing(0)
    assert [schedule.at(number).in_neighbors for number in range(9)] == [(1, 2)] * 4 + [(1, 3)] * 2 + [(2, 3)] * 3
    assert [schedule.epoch(number) for number in (0, 3, 4, 5, 6, 8)] == [b"", b"", b"one", b"one", b"two", b"two"]
    assert schedule.members(7) == {0, 2, 3}


def test_a_joiner_hears_its_neighbors_to_be_in_the_round_before_its_entry_and_sends_nothing():
    joiner = growing(3)
    assert [joiner.at(number).active for number in range(6)] == [False] * 4 + [True] * 2
    assert [joiner.at(number).in_neighbors for number in range(5)] == [(), (), (), (0, 2), (0, 2)]
    assert joiner.at(3).out_neighbors == ()
    assert growing(0).at(3).out_neighbors == (1, 2, 3)
    assert growing(0).at(3).in_neighbors == (1, 2)
    assert growing(1).at(3).out_neighbors == (0, 2), "it is no neighbor of the joiner"


def test_a_joiner_does_not_wait_for_a_joiner():
    schedule = Schedule(build("ring", 3), 3, 9)
    schedule.follow(
        [Piece(0, build("ring", 3), frozenset(range(3))), Piece(4, build("ring", 5), frozenset(range(5)), b"one")], 9
    )
    assert schedule.at(3).in_neighbors == (2,)
    assert schedule.at(4).in_neighbors == (2, 4)


def test_a_leaver_has_no_edges_after_it():
    schedule = growing(1)
    assert schedule.at(5).out_neighbors == (0, 2)
    assert schedule.at(6).out_neighbors == ()
    assert not schedule.at(6).active
