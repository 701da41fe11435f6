"""Rounds in which some peers sit out: who is drawn, and what is left of the graph."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpeer.exceptions import TopologyError
from dpeer.topology import Graphs, Isolated, Participation, Row, build, participation

Dense = NDArray[np.float64]

UNDIRECTED = ["ring", "full", "grid", "star", "erdos-renyi", "random-matching", "fresh-neighbors"]
DIRECTED = ["exponential-directed", "one-peer-exponential", "fresh-directed"]


def matrix(graphs: Graphs, number: int) -> Dense:
    """The mixing matrix of a round, put together from what each peer sees."""
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
        (2, 0.1, 2),
        (3, 0.1, 2),
        (3, 0.8, 2),
        (3, 0.9, 3),
        (7, 1, 7),
    ],
)
def test_as_many_take_part_as_asked_for_but_never_fewer_than_two(size: int, fraction: float, count: int) -> None:
    graphs = Participation(build("full", size), fraction, 3)
    assert (graphs.size, graphs.count) == (size, count)
    for number in range(20):
        present = graphs.participants(number)
        assert len(present) == count
        assert present <= set(range(size))
        assert present == {rank for rank in range(size) if graphs.at(number, rank).active}


def test_a_single_peer_takes_part_alone() -> None:
    graphs = Participation(Isolated(1), 0.5, 0)
    assert (graphs.count, graphs.pair_rate, graphs.participants(4)) == (1, 1.0, frozenset({0}))
    assert graphs.at(4, 0) == Isolated(1).at(4, 0)


def test_rounds_and_seeds_draw_different_peers() -> None:
    full = build("full", 40)
    drawn = [Participation(full, 0.5, seed).participants(number) for seed in range(3) for number in (*range(20), 111)]
    assert len(set(drawn)) == len(drawn)


def test_draws_stay_what_they_were() -> None:
    # When this fails, seeds mean other peers than in earlier releases: say so in the release notes.
    graphs = Participation(build("full", 20), 0.25, 0)
    drawn = [sorted(graphs.participants(number)) for number in range(3)]
    assert drawn == [[7, 10, 15, 17, 18], [0, 3, 9, 14, 19], [8, 11, 17, 18, 19]]


def test_draws_that_are_no_longer_kept_are_made_again() -> None:
    graphs = Participation(build("ring", 12), 0.5, 1)
    expected = [graphs.participants(number) for number in range(100)]
    kept = participation._drawn.cache_info()
    assert kept.maxsize is not None
    assert kept.currsize <= kept.maxsize < 100
    participation._drawn.cache_clear()
    fresh = Participation(build("ring", 12), 0.5, 1)
    assert [fresh.participants(number) for number in reversed(range(100))] == expected[::-1]


@pytest.mark.parametrize(("size", "fraction"), [(10, 0.2), (20, 0.5), (9, 0.8)])
def test_everyone_takes_part_as_often_and_pairs_meet_as_often_as_said(size: int, fraction: float) -> None:
    rounds = 3000
    graphs = Participation(build("full", size), fraction, 0)
    together = np.zeros((size, size))
    for number in range(rounds):
        present = np.isin(np.arange(size), list(graphs.participants(number)))
        together += np.outer(present, present)
    share = graphs.count / size
    assert np.diag(together).sum() == rounds * graphs.count
    # Seven standard deviations of draws that favor nobody.
    assert np.abs(np.diag(together) - rounds * share).max() < 7.0 * math.sqrt(rounds * share * (1.0 - share))
    met, rate = together[~np.eye(size, dtype=bool)], graphs.pair_rate
    assert met.mean() == pytest.approx(rounds * rate)
    assert np.abs(met - rounds * rate).max() < 7.0 * math.sqrt(rounds * rate * (1.0 - rate))


def test_who_takes_part_has_nothing_to_do_with_who_is_matched() -> None:
    # With one stream for both, as with one seed it easily is, the peers drawn would be matched with one another.
    size, rounds = 20, 500
    graphs = Participation(build("random-matching", size, graph_seed=5), 0.5, 5)
    met = sum(len(graphs.at(number, rank).in_neighbors) for number in range(rounds) for rank in range(size)) // 2
    expected = rounds * size / 2 * graphs.pair_rate
    assert met == pytest.approx(expected, abs=6.0 * math.sqrt(expected))


@settings(deadline=None, max_examples=80)
@given(
    st.sampled_from(UNDIRECTED),
    st.integers(2, 24).filter(lambda size: size < 4 or any(size % rows == 0 for rows in range(2, size))),
    st.floats(0.01, 1.0),
    st.integers(0, 99),
    st.integers(0, 10**6),
)
def test_matrices_of_symmetric_weights_stay_symmetric_and_doubly_stochastic(
    name: str, size: int, fraction: float, seed: int, number: int
) -> None:
    whole = build(name, size, fresh_neighbors=2 if size > 2 else 1, graph_seed=seed)
    graphs = Participation(whole, fraction, seed)
    weights = matrix(graphs, number)
    present = np.isin(np.arange(size), list(graphs.participants(number)))
    assert weights.min() >= 0.0
    assert np.abs(weights.sum(axis=0) - 1.0).max() <= 1e-12
    assert np.abs(weights.sum(axis=1) - 1.0).max() <= 1e-12
    assert np.array_equal(weights, weights.T)
    assert np.array_equal(weights[~present], np.eye(size)[~present])
    off = np.outer(present, present) & ~np.eye(size, dtype=bool)
    assert np.array_equal(weights[off], matrix(whole, number)[off])


@pytest.mark.parametrize("rule", ["max-degree", "best-constant", "fastest"])
def test_other_symmetric_weights_stay_doubly_stochastic_too(rule: str) -> None:
    graphs = Participation(build("grid", 12, weights=rule), 0.4, 2)
    for number in range(20):
        weights = matrix(graphs, number)
        assert np.abs(weights.sum(axis=0) - 1.0).max() <= 1e-12
        assert np.abs(weights.sum(axis=1) - 1.0).max() <= 1e-12


@pytest.mark.parametrize("name", ["exponential-directed", "one-peer-exponential"])
def test_directed_graphs_keep_the_average_only_on_average(name: str) -> None:
    whole, rounds = build(name, 9), 2000
    graphs = Participation(whole, 0.5, 0)
    assert np.abs(matrix(whole, 0).sum(axis=0) - 1.0).max() <= 1e-12
    drawn = [matrix(graphs, number) for number in range(rounds)]
    assert all(np.abs(weights.sum(axis=1) - 1.0).max() <= 1e-12 for weights in drawn)
    columns = np.array([weights.sum(axis=0) for weights in drawn])
    assert np.abs(columns - 1.0).max(axis=1).mean() > 0.1
    assert np.abs(columns.mean(axis=0) - 1.0).max() < 6.0 * columns.std() / math.sqrt(rounds)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from([*UNDIRECTED, *DIRECTED]),
    st.sampled_from([4, 6, 9, 16]),
    st.floats(0.01, 1.0),
    st.integers(0, 99),
    st.integers(0, 10**6),
)
def test_neighbors_are_those_of_the_graph_that_take_part_and_agree_on_both_ends(
    name: str, size: int, fraction: float, seed: int, number: int
) -> None:
    whole = build(name, size, fresh_neighbors=2, graph_seed=seed)
    graphs = Participation(whole, fraction, seed)
    present = graphs.participants(number)
    sent, heard = set(), set()
    for rank in range(size):
        around, before = graphs.at(number, rank), whole.at(number, rank)
        sent |= {(rank, other) for other in around.out_neighbors}
        heard |= {(other, rank) for other in around.in_neighbors}
        assert set(around.row) == {rank, *around.in_neighbors}
        assert math.fsum(around.row.values()) == pytest.approx(1.0, abs=1e-12)
        if rank in present:
            assert around.in_neighbors == tuple(other for other in before.in_neighbors if other in present)
            assert around.out_neighbors == tuple(other for other in before.out_neighbors if other in present)
    assert sent == heard


def test_who_sits_out_keeps_what_it_has() -> None:
    graphs = Participation(build("full", 10), 0.3, 0)
    (rank, *_) = set(range(10)) - graphs.participants(4)
    around = graphs.at(4, rank)
    assert (around.rank, around.row, around.active) == (rank, Row(rank, {rank: 1.0}), False)
    assert (around.in_neighbors, around.out_neighbors) == ((), ())


def test_among_few_of_a_full_graph_each_keeps_most_of_its_own() -> None:
    graphs = Participation(build("full", 100), 0.1, 0)
    rank = min(graphs.participants(0))
    row = graphs.at(0, rank).row
    assert len(row) == 10
    assert row[rank] == pytest.approx(0.91)
    assert graphs.pair_rate == 10 * 9 / (100 * 99)


@pytest.mark.parametrize("name", [*UNDIRECTED, *DIRECTED])
@pytest.mark.parametrize("size", [2, 12])
def test_where_everyone_takes_part_the_graph_is_as_it_was(name: str, size: int) -> None:
    whole = build(name, size, fresh_neighbors=1)
    graphs = Participation(whole, 1.0, 9)
    assert graphs.pair_rate == 1.0
    assert graphs.participants(2) == set(range(size))
    for number in range(3):
        assert [graphs.at(number, rank) for rank in range(size)] == [whole.at(number, rank) for rank in range(size)]


@pytest.mark.parametrize("name", ["grid", "fresh-directed"])
def test_connections_are_those_of_the_whole_graph_and_enough(name: str) -> None:
    whole = build(name, 12)
    graphs = Participation(whole, 0.4, 0)
    for rank in range(12):
        connections = graphs.connections(rank, 5)
        assert connections == whole.connections(rank, 5)
        for number in range(5):
            around = graphs.at(number, rank)
            assert {*around.in_neighbors, *around.out_neighbors} <= set(connections)


def test_who_sits_out_of_the_graphs_inside_sits_out_of_those_outside() -> None:
    inside = Participation(build("full", 12), 0.5, 0)
    outside = Participation(inside, 0.75, 1)
    for number in range(10):
        active = {rank for rank in range(12) if outside.at(number, rank).active}
        assert active == inside.participants(number) & outside.participants(number)


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, 2, math.nan, math.inf])
def test_fractions_that_cannot_be(fraction: float) -> None:
    with pytest.raises(
        TopologyError, match=rf"^participation: fraction {fraction:g}: choose more than 0 and at most 1"
    ):
        Participation(build("ring", 4), fraction, 0)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(TopologyError, match="participation: seed -1: choose 0 or more"):
        Participation(build("ring", 4), 0.5, -1)


@pytest.mark.parametrize("fraction", [0.5, 1.0])
@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_outside_the_graph_is_named(fraction: float, rank: int) -> None:
    graphs = Participation(build("ring", 4), fraction, 0)
    for ask in (lambda: graphs.at(0, rank), lambda: graphs.connections(rank, 9)):
        with pytest.raises(TopologyError, match=f"rank {rank}: ranks of 4 peers run from 0 to 3"):
            ask()


def test_they_compare_by_what_defines_them() -> None:
    graphs = Participation(build("ring", 8), 0.5, 0)
    assert graphs == Participation(build("ring", 8), 0.5, 0) == pickle.loads(pickle.dumps(graphs))
    assert graphs != Participation(build("ring", 8), 0.5, 1)
    assert graphs != Participation(build("full", 8), 0.5, 0)
