"""Rows, and the graph as one peer sees it."""

import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.exceptions import TopologyError
from dpeer.topology import Isolated, Row, build


def test_a_row_is_an_immutable_mapping_in_rank_order() -> None:
    row = Row(2, {5: 0.25, 2: 0.5, 0: 0.25})
    assert list(row.items()) == [(0, 0.25), (2, 0.5), (5, 0.25)]
    assert row.rank == 2
    assert row == {0: 0.25, 2: 0.5, 5: 0.25}
    assert hash(row) == hash(Row(2, dict(row)))
    assert pickle.loads(pickle.dumps(row)) == row
    with pytest.raises(TypeError):
        row[0] = 1.0


def test_a_row_does_not_follow_the_dict_it_was_made_from() -> None:
    weights = {0: 1.0}
    row = Row(0, weights)
    weights[0] = 7.0
    assert row == {0: 1.0}


def test_who_is_missing_gives_its_weight_to_the_receiver() -> None:
    row = Row(1, {0: 0.25, 1: 0.5, 2: 0.25})
    assert row.restricted_to([2]) == {1: 0.75, 2: 0.25}
    assert row.restricted_to({0: b"...", 1: b"...", 9: b"..."}) == {0: 0.25, 1: 0.75}
    assert row.restricted_to(()) == {1: 1.0}
    assert row == {0: 0.25, 1: 0.5, 2: 0.25}


def test_a_row_of_which_nobody_is_missing_is_the_same_row() -> None:
    row = Row(1, {0: 0.25, 1: 0.5, 2: 0.25})
    assert row.restricted_to({0, 2}) is row


@settings(deadline=None)
@given(st.data())
def test_restricted_rows_sum_to_one_and_keep_the_weights_of_who_was_heard(data: st.DataObject) -> None:
    graph = build(data.draw(st.sampled_from(["star", "grid", "full", "exponential-directed"])), 12)
    row = graph.at(0, data.draw(st.integers(0, 11))).row
    received = data.draw(st.sets(st.integers(0, 11)))
    restricted = row.restricted_to(received)
    assert set(restricted) == (set(row) & received) | {row.rank}
    assert math.fsum(restricted.values()) == pytest.approx(1.0, abs=1e-15)
    assert all(restricted[other] == row[other] for other in restricted if other != row.rank)
    assert restricted[row.rank] >= row[row.rank]


def test_isolated_peers_keep_all_of_their_own() -> None:
    around = Isolated(4).at(7, 3)
    assert (around.rank, dict(around.row), around.in_neighbors, around.out_neighbors) == (3, {3: 1.0}, (), ())
    assert Isolated(4).connections(3, 9) == ()


@pytest.mark.parametrize("graphs", [build("ring", 4), Isolated(4)])
@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_outside_the_graph_is_named_with_the_size(graphs: Isolated, rank: int) -> None:
    for ask in (lambda: graphs.at(0, rank), lambda: graphs.connections(rank, 9)):
        with pytest.raises(TopologyError, match=f"rank {rank}: ranks of 4 peers run from 0 to 3"):
            ask()
