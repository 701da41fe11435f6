"""Partial participation: the draws and the graph among the participants; and a sample that sends to all peers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpeer.topology import Graphs, Isolated, Participation, Row, ServerSampling, build

Dense = NDArray[np.float64]

UNDIRECTED = ["ring", "full", "grid", "star", "erdos-renyi", "random-matching", "fresh"]
DIRECTED = ["exponential-directed", "one-peer-exponential", "fresh-directed"]
FULL = build("full", 10, weights="uniform")


def matrix(graphs: Graphs, number: int) -> Dense:
    """The mixing matrix of a round, put together from the row of each peer."""
    found = np.zeros((graphs.size, graphs.size))
    for rank in range(graphs.size):
        for other, weight in graphs.at(number, rank).row.items():
            found[rank, other] = weight
    return found


@pytest.mark.parametrize(
    ("size", "fraction", "count"),
    [
        (10, 0.5, 5),
        (25, 0.1, 3),  # 2.5
        (50, 0.29, 15),  # 14.5, though not in binary
        (9, 0.05, 2),
        (100, 1e-9, 2),
        (100, 0.994, 99),
        (100, 0.995, 100),
        (3, 0.8, 2),
        (3, 0.9, 3),
        (7, 1, 7),
        (1, 0.5, 1),
    ],
)
def test_as_many_take_part_as_asked_for_but_never_fewer_than_two(size: int, fraction: float, count: int) -> None:
    graphs = Participation(Isolated(1) if size == 1 else build("full", size), fraction, 3)
    assert (graphs.size, graphs.count) == (size, count)
    for number in range(3):
        present = graphs.participants(number)
        assert len(present) == count
        assert present == {rank for rank in range(size) if graphs.at(number, rank).active}


@pytest.mark.parametrize(("size", "fraction"), [(10, 0.2), (9, 0.8)])
def test_each_peer_takes_part_and_each_pair_meets_at_its_rate(size: int, fraction: float) -> None:
    rounds = 3000
    graphs = Participation(build("full", size), fraction, 0)
    together = np.zeros((size, size))
    for number in range(rounds):
        present = np.isin(np.arange(size), list(graphs.participants(number)))
        together += np.outer(present, present)
    share = graphs.count / size
    assert np.diag(together).sum() == rounds * graphs.count
    # Seven standard deviations of fair draws.
    assert np.abs(np.diag(together) - rounds * share).max() < 7.0 * math.sqrt(rounds * share * (1.0 - share))
    met, rate = together[~np.eye(size, dtype=bool)], share * (graphs.count - 1) / (size - 1)
    assert met.mean() == pytest.approx(rounds * rate)
    assert np.abs(met - rounds * rate).max() < 7.0 * math.sqrt(rounds * rate * (1.0 - rate))


def test_participants_and_matchings_are_independent() -> None:
    # With one stream for both, as with one seed it easily is, the peers drawn would be matched with one another.
    size, rounds = 20, 300
    graphs = Participation(build("random-matching", size, graph_seed=5), 0.5, 5)
    met = sum(len(graphs.at(number, rank).in_neighbors) for number in range(rounds) for rank in range(size)) // 2
    expected = rounds * size / 2 * (graphs.count * (graphs.count - 1)) / (size * (size - 1))
    assert met == pytest.approx(expected, abs=6.0 * math.sqrt(expected))


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from([*UNDIRECTED, *DIRECTED]),
    st.sampled_from([4, 6, 9, 16, 24]),
    st.floats(0.01, 1.0) | st.just(1.0),
    st.integers(0, 99),
    st.integers(0, 10**6),
)
def test_the_graph_among_participants_keeps_its_edges_and_weights(
    name: str, size: int, fraction: float, seed: int, number: int
) -> None:
    whole = build(f"{name}:2" if name.startswith("fresh") else name, size, graph_seed=seed)
    graphs = Participation(whole, fraction, seed)
    present = graphs.participants(number)
    sent, heard = set(), set()
    for rank in range(size):
        around, before = graphs.at(number, rank), whole.at(number, rank)
        sent |= {(rank, other) for other in around.out_neighbors}
        heard |= {(other, rank) for other in around.in_neighbors}
        assert set(around.row) == {rank, *around.in_neighbors}
        assert len(present) < size or around == before
        if rank in present:
            assert around.in_neighbors == tuple(other for other in before.in_neighbors if other in present)
            assert around.out_neighbors == tuple(other for other in before.out_neighbors if other in present)
        else:
            assert (around.row, around.active, around.others) == (Row(rank, {rank: 1.0}), False, ())
    assert sent == heard
    weights, mask = matrix(graphs, number), np.isin(np.arange(size), list(present))
    assert weights.min() >= 0.0
    assert np.abs(weights.sum(axis=1) - 1.0).max() <= 1e-12
    off = np.outer(mask, mask) & ~np.eye(size, dtype=bool)
    assert np.array_equal(weights[off], matrix(whole, number)[off])
    if name in UNDIRECTED:
        assert np.array_equal(weights, weights.T)
        assert np.abs(weights.sum(axis=0) - 1.0).max() <= 1e-12


@pytest.mark.parametrize("name", ["grid", "fresh-directed"])
def test_connections_are_those_of_the_whole_graph_and_enough(name: str) -> None:
    whole = build(name, 12)
    graphs = Participation(whole, 0.4, 0)
    for rank in range(12):
        connections = graphs.connections(rank, 5)
        assert connections == whole.connections(rank, 5)
        assert all({*graphs.at(number, rank).others} <= {*connections} for number in range(5))


def test_all_rows_of_a_server_are_the_mean_of_the_sample() -> None:
    graphs, drawn = ServerSampling(FULL, 0.3, 4), Participation(FULL, 0.3, 4)
    for number in range(30):
        sample = graphs.participants(number)
        assert sample == drawn.participants(number)
        assert len(sample) == 3
        around = [graphs.at(number, rank) for rank in range(10)]
        for one in around:
            assert {other: weight for other, weight in one.row.items() if weight} == dict.fromkeys(sample, 1 / 3)
            assert set(one.in_neighbors) == sample - {one.rank}
            assert one.active == (one.rank in sample)
            assert one.out_neighbors == (tuple(set(range(10)) - {one.rank}) if one.active else ())
        sent = {(one.rank, other) for one in around for other in one.out_neighbors}
        assert sent == {(other, one.rank) for one in around for other in one.in_neighbors}


@pytest.mark.parametrize(("fraction", "share"), [(0.3, 0.3), (0.25, 0.3), (0.01, 0.2)])
def test_the_share_of_a_server_is_that_of_its_sample(fraction: float, share: float) -> None:
    assert ServerSampling(build("full", 10), fraction, 4).share == share


def test_a_body_that_does_not_come_counts_as_the_receivers_own() -> None:
    graphs = ServerSampling(FULL, 0.3, 4)
    sample = sorted(graphs.participants(0))
    outside = next(rank for rank in range(10) if rank not in sample)
    assert dict(graphs.at(0, outside).row.restricted_to(sample[:2])) == pytest.approx(
        {outside: 1 / 3, sample[0]: 1 / 3, sample[1]: 1 / 3}
    )
    assert dict(graphs.at(0, sample[0]).row.restricted_to(sample[:2])) == pytest.approx(
        {sample[0]: 2 / 3, sample[1]: 1 / 3}
    )
