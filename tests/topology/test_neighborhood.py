"""Rows, and the graph as one peer sees it."""

import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.topology import Isolated, Row, build


def test_a_row_is_an_immutable_mapping_in_rank_order() -> None:
    weights = {5: 0.25, 2: 0.5, 0: 0.25}
    row = Row(2, weights)
    weights[0] = 7.0
    assert list(row.items()) == [(0, 0.25), (2, 0.5), (5, 0.25)]
    assert (row.rank, hash(row)) == (2, hash(Row(2, dict(row))))
    assert pickle.loads(pickle.dumps(row)) == row
    with pytest.raises(TypeError):
        row[0] = 1.0


def test_a_missing_neighbor_gives_its_weight_to_the_receiver() -> None:
    row = Row(1, {0: 0.25, 1: 0.5, 2: 0.25})
    assert row.restricted_to([2]) == {1: 0.75, 2: 0.25}
    assert row.restricted_to({0: b"...", 1: b"...", 9: b"..."}) == {0: 0.25, 1: 0.75}
    assert row.restricted_to(()) == {1: 1.0}
    assert row == {0: 0.25, 1: 0.5, 2: 0.25}
    assert row.restricted_to({0, 2}) is row, "none is missing"


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_restricted_rows_sum_to_one_and_keep_the_other_weights(data: st.DataObject) -> None:
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
