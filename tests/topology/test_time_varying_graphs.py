"""Time-varying graphs: the promise of each; test_draws.py holds how they are drawn."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.topology import TIME_VARYING, analyse, build, topologies
from tests.topology.test_draws import changing


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


@pytest.mark.parametrize("size", [2, 4, 8, 16, 64, 256])
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
def test_random_matching_pairs_all_peers_but_an_odd_one(size: int, seed: int, number: int) -> None:
    graph = changing("random-matching", size, graph_seed=seed)
    paired = [rank for edge in graph.edges_at(number) for rank in edge]
    assert len(paired) == len(set(paired)) == size // 2 * 2
    weights = graph.weights_at(number)
    assert set(np.unique(weights)) <= {0.0, 0.5, 1.0}
    assert np.array_equal(weights @ weights, weights)  # the average of each pair


@settings(deadline=None, max_examples=40)
@given(st.integers(3, 300), st.integers(1, 12), st.integers(0, 99), st.integers(0, 10**6))
def test_peers_have_as_many_fresh_neighbors_as_asked_for(size: int, count: int, seed: int, number: int) -> None:
    count = min(count, size - 1)
    directed = changing("fresh-directed", size, count, seed)
    assert directed.directed
    assert not directed.doubly_stochastic
    assert set(np.bincount([receiver for _, receiver in directed.edges_at(number)], minlength=size)) == {count}
    count -= count * size % 2
    if count < 2:
        return
    graph = changing("fresh", size, count, seed)
    edges = graph.edges_at(number)
    assert len({tuple(edge) for edge in edges}) == len(edges) == size * count // 2
    drawn = nx.Graph(edges)
    assert set(dict(drawn.degree).values()) == {count}
    assert nx.number_of_selfloops(drawn) == 0
    assert nx.is_connected(drawn)
    weights = graph.weights_at(number)
    assert np.allclose(weights[weights > 0.0], 1.0 / (1 + count), atol=1e-15)


@pytest.mark.parametrize("name", sorted(TIME_VARYING))
def test_rounds_that_are_no_longer_kept_are_drawn_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [changing(name, 9).at(number, 4) for number in range(12)]
    monkeypatch.setattr(topologies, "KEPT_ROUNDS", 3)
    graph = changing(name, 9)
    for number in (11, 0, 3, 3, 7, 1, 11, 2, 0, 4, 5, 6, 8, 9, 10, 11, 0):
        assert graph.at(number, 4) == expected[number]


@pytest.mark.parametrize("name", ["one-peer-exponential", "fresh-directed", "exponential-directed"])
@pytest.mark.parametrize("rule", ["metropolis", "best-constant"])
def test_directed_graphs_have_uniform_weights_whatever_the_rule(name: str, rule: str) -> None:
    graph = build(name, 8, weights=rule)
    assert (graph.weights_rule, graph.directed) == ("uniform", True)
    weights = graph.mixing_at(0).sparse
    assert np.allclose(weights.data, 1.0 / (1 + len(graph.at(0, 0).in_neighbors)), atol=1e-15)
