"""Graphs that change with the round: what each promises; how they are drawn is in test_draws.py."""

import time

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.exceptions import TopologyError
from dpeer.topology import TIME_VARYING, TimeVaryingTopology, Topology, analyse, build, topologies


def changing(name: str, size: int, fresh_neighbors: int = 4, graph_seed: int = 0) -> TimeVaryingTopology:
    graph = build(name, size, fresh_neighbors=fresh_neighbors, graph_seed=graph_seed)
    assert isinstance(graph, TimeVaryingTopology)
    return graph


@pytest.mark.parametrize("size", [2, 3, 5, 8, 12, 100])
def test_one_peer_exponential_sends_one_message_a_power_of_two_further(size: int) -> None:
    graph = changing("one-peer-exponential", size)
    powers = [1 << k for k in range(10) if 1 << k < size]
    assert graph.period == len(powers)
    assert graph.directed
    for number in range(2 * graph.period + 1):
        step = powers[number % len(powers)]
        for rank in range(size):
            around = graph.at(number, rank)
            assert around.out_neighbors == ((rank + step) % size,)
            assert around.in_neighbors == ((rank - step) % size,)
            assert set(around.row.values()) == {0.5}


@pytest.mark.parametrize("size", [2, 4, 8, 16, 64, 256, 1024])
def test_one_peer_exponential_averages_exactly_at_powers_of_two(size: int) -> None:
    # Ying et al. 2021, Lemma 1.
    graph = changing("one-peer-exponential", size)
    found = analyse(graph)
    assert (found.second_singular_value, found.spectral_gap) == (0.0, 1.0)
    assert found.rounds == graph.period == size.bit_length() - 1
    product = np.eye(size)
    for number in range(graph.period):
        product = graph.weights_at(number) @ product
    assert np.array_equal(product, np.full((size, size), 1.0 / size))


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 120), st.integers(0, 99), st.integers(0, 10**6))
def test_random_matching_pairs_everyone_but_an_odd_one(size: int, seed: int, number: int) -> None:
    graph = changing("random-matching", size, graph_seed=seed)
    pairing_model = [rank for edge in graph.edges_at(number) for rank in edge]
    assert len(pairing_model) == len(set(pairing_model)) == size // 2 * 2
    weights = graph.weights_at(number)
    assert set(np.unique(weights)) <= {0.0, 0.5, 1.0}
    assert np.array_equal(weights @ weights, weights)  # the average of each pair


@settings(deadline=None, max_examples=60)
@given(st.integers(3, 300), st.integers(1, 12), st.integers(0, 99), st.integers(0, 10**6))
def test_fresh_neighbors_are_as_many_as_asked_for(size: int, count: int, seed: int, number: int) -> None:
    count = min(count, size - 1)
    count -= count * size % 2
    if count < 2:
        return
    graph = changing("fresh-neighbors", size, count, seed)
    edges = graph.edges_at(number)
    assert len({tuple(edge) for edge in edges}) == len(edges) == size * count // 2
    drawn = nx.Graph(edges)
    assert set(dict(drawn.degree).values()) == {count}
    assert nx.number_of_selfloops(drawn) == 0
    assert nx.is_connected(drawn)
    assert np.allclose(graph.weights_at(number)[graph.weights_at(number) > 0.0], 1.0 / (1 + count), atol=1e-15)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 200), st.integers(1, 12), st.integers(0, 99), st.integers(0, 10**6))
def test_fresh_directed_peers_hear_as_many_others_as_asked_for(size: int, count: int, seed: int, number: int) -> None:
    count = min(count, size - 1)
    graph = changing("fresh-directed", size, count, seed)
    assert graph.directed
    assert not graph.doubly_stochastic
    for rank in range(size):
        heard = graph.at(number, rank).in_neighbors
        assert len(set(heard) - {rank}) == len(heard) == count
    assert np.allclose(graph.weights_at(number).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("name", sorted(TIME_VARYING))
def test_rounds_that_are_no_longer_kept_are_drawn_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [changing(name, 9).at(number, 4) for number in range(12)]
    monkeypatch.setattr(topologies, "KEPT_ROUNDS", 3)
    graph = changing(name, 9)
    order = [11, 0, 3, 3, 7, 1, 11, 2, 0, 4, 5, 6, 8, 9, 10, 11, 0]
    for number in order:
        assert graph.at(number, 4) == expected[number]
    assert len(graph._mixings) <= 3


@pytest.mark.parametrize("name", ["random-matching", "fresh-neighbors", "fresh-directed"])
def test_the_connections_of_a_thousand_rounds_are_quick(name: str) -> None:
    graph = changing(name, 100)
    start = time.process_time()
    assert len(graph.connections(3, 1000)) == 99
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize(
    ("name", "size", "count", "message"),
    [
        ("fresh-neighbors", 8, 8, "fresh-neighbors: K 8 with size 8: choose a K from 1 to 7"),
        ("fresh-neighbors", 8, 0, "fresh-neighbors: K 0 with size 8"),
        ("fresh-neighbors", 7, 3, "fresh-neighbors: K 3 with size 7 does not exist: one of them must be even"),
        ("fresh-directed", 8, 8, "fresh-directed: K 8 with size 8: choose a K from 1 to 7"),
        ("fresh-directed", 8, 0, "fresh-directed: K 0 with size 8"),
    ],
)
def test_numbers_that_cannot_be(name: str, size: int, count: int, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        build(name, size, fresh_neighbors=count)


@pytest.mark.parametrize("name", ["random-matching", "fresh-neighbors", "fresh-directed", "small-world", "erdos-renyi"])
def test_a_negative_seed_is_refused(name: str) -> None:
    with pytest.raises(TopologyError, match=f"{name}: graph seed -1"):
        build(name, 8, graph_seed=-1)


@pytest.mark.parametrize("name", ["random-matching", "fresh-neighbors"])
@pytest.mark.parametrize("weights", ["best-constant", "fastest"])
def test_weights_that_suit_one_graph_are_refused(name: str, weights: str) -> None:
    with pytest.raises(TopologyError, match=f"weights {weights}: {name} has another graph every round"):
        build(name, 8, weights=weights)


@pytest.mark.parametrize("name", ["one-peer-exponential", "fresh-directed"])
def test_directed_ones_are_uniform_whatever_is_asked(name: str) -> None:
    assert build(name, 8, weights="best-constant").weights_rule == "uniform"


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_outside_the_graph_is_named(rank: int) -> None:
    graph = changing("random-matching", 4)
    for ask in (lambda: graph.at(0, rank), lambda: graph.connections(rank, 9)):
        with pytest.raises(TopologyError, match=f"rank {rank}: ranks of 4 peers run from 0 to 3"):
            ask()


def test_topologies_compare_by_what_defines_them() -> None:
    assert changing("fresh-neighbors", 8) == changing("fresh-neighbors", 8)
    assert changing("fresh-neighbors", 8) != changing("fresh-neighbors", 8, 3)
    assert changing("fresh-neighbors", 8) != changing("fresh-neighbors", 8, graph_seed=1)
    assert isinstance(build("ring", 8), Topology)
