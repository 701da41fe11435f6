"""Graphs whose peers have other ranks than 0 to size - 1."""

import math

import pytest

from dpeer.exceptions import TopologyError
from dpeer.topology import Participation, Relabeled, build

RANKS = (0, 2, 3, 7, 11)


@pytest.mark.parametrize("name", ["ring", "full", "exponential-directed", "one-peer-exponential", "random-matching"])
def test_every_edge_and_weight_is_that_of_the_place(name: str) -> None:
    graphs = build(name, 5)
    renamed = Relabeled(graphs, RANKS)
    assert renamed.size == 5
    for number in range(4):
        for place, rank in enumerate(RANKS):
            before, after = graphs.at(number, place), renamed.at(number, rank)
            assert after.rank == after.row.rank == rank
            assert list(after.row.items()) == [(RANKS[one], weight) for one, weight in before.row.items()]
            assert after.in_neighbors == tuple(RANKS[one] for one in before.in_neighbors)
            assert after.out_neighbors == tuple(RANKS[one] for one in before.out_neighbors)
            assert renamed.connections(rank, 4) == tuple(RANKS[one] for one in graphs.connections(place, 4))


def test_with_the_same_names_it_is_the_same_graph() -> None:
    graphs = build("erdos-renyi", 6)
    renamed = Relabeled(graphs, tuple(range(6)))
    assert [renamed.at(0, rank) for rank in range(6)] == [graphs.at(0, rank) for rank in range(6)]


def test_columns_sum_to_one_over_the_members() -> None:
    renamed = Relabeled(build("star", 5), RANKS)
    for sender in RANKS:
        assert math.isclose(math.fsum(renamed.at(0, rank).row.get(sender, 0.0) for rank in RANKS), 1.0)


def test_who_sits_a_round_out_does_so_by_its_name() -> None:
    drawn = Participation(build("full", 5), 0.4, seed=3)
    renamed = Relabeled(drawn, RANKS)
    for number in range(6):
        active = {rank for rank in RANKS if renamed.at(number, rank).active}
        assert active == {RANKS[place] for place in drawn.participants(number)}


@pytest.mark.parametrize("rank", [1, -1, 12])
def test_another_rank_is_no_peer(rank: int) -> None:
    renamed = Relabeled(build("ring", 5), RANKS)
    with pytest.raises(TopologyError, match=f"rank {rank}: expected one of 0, 2, 3, 7, 11"):
        renamed.at(0, rank)
    with pytest.raises(TopologyError):
        renamed.connections(rank, 3)
