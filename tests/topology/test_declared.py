"""Declared weights: detailed balance, the mean that is kept, the gap, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpeer.exceptions import TopologyError
from dpeer.topology import Participation, Topology, analyse, build, spectral_gap
from dpeer.topology.mixing_matrix import spelled, stationary

Dense = NDArray[np.float64]

FIXED = ["ring", "grid", "torus", "exponential", "hypercube", "full", "star", "random-regular", "small-world"]
CHANGING = ["random-matching", "fresh", "fresh:2"]
NUMBERS = (400.0, 20.0, 30.5, 7.0, 1.0, 88.0, 2.0, 150.0)
P = np.array(NUMBERS) / sum(NUMBERS)


def declared(name: str, numbers: tuple[float, ...] = NUMBERS) -> Topology:
    return build(name, len(numbers), weights=spelled(numbers))


def by_definition(edges: list[list[int]], numbers: tuple[float, ...]) -> Dense:
    """Metropolis-Hastings, entry by entry: propose one of i's neighbors or i itself alike, accept by the ratio."""
    size = len(numbers)
    near = [{i, *(a + b - i for a, b in edges if i in (a, b))} for i in range(size)]
    w = np.zeros((size, size))
    for i in range(size):
        for j in near[i] - {i}:
            accepted = min(1.0, numbers[j] * len(near[i]) / (numbers[i] * len(near[j])))
            w[i, j] = accepted / len(near[i])
        w[i, i] = 1.0 - sum(w[i])
    return w


@pytest.mark.parametrize("name", [*FIXED, *CHANGING])
def test_weights_are_those_of_metropolis_and_hastings(name: str) -> None:
    graph = declared(name)
    for number in range(3):
        w = graph.weights_at(number)
        np.testing.assert_allclose(w, by_definition(graph.edges_at(number), NUMBERS), rtol=0, atol=1e-14)
        flow = P[:, None] * w
        np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-15)  # detailed balance
        np.testing.assert_allclose(P @ w, P, rtol=1e-13)
        assert not np.allclose(w.sum(axis=0), 1.0)
    assert not graph.doubly_stochastic


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(3, 12), st.integers(0, 8))
def test_any_graph_and_numbers_keep_detailed_balance(seed: int, size: int, digits: int) -> None:
    numbers = tuple(10.0 ** np.random.default_rng(seed).uniform(0, digits, size))
    w = build("erdos-renyi:0.6", size, weights=spelled(numbers), graph_seed=seed).weights
    flow = stationary(numbers)[:, None] * w
    np.testing.assert_allclose(flow, flow.T, rtol=1e-12, atol=0)
    assert w.min() >= 0.0
    assert np.diag(w).min() > 0.0


@pytest.mark.parametrize("name", [*FIXED, *CHANGING])
@pytest.mark.parametrize("number", [1.0, 0.1, 400.0])
def test_equal_numbers_give_metropolis_to_the_bit(name: str, number: float) -> None:
    plain, equal = build(name, 8), declared(name, (number,) * 8)
    for at in range(3):
        assert plain.weights_at(at).tobytes() == equal.weights_at(at).tobytes()
    assert analyse(equal).as_dict() == analyse(plain).as_dict() | {"stationary": [0.125] * 8}
    assert equal.doubly_stochastic


@pytest.mark.parametrize("name", FIXED)
def test_the_gap_is_that_of_the_reversible_matrix(name: str) -> None:
    graph = declared(name)
    values = np.sort(np.abs(np.linalg.eigvals(graph.weights)))[::-1]
    assert spectral_gap(graph) == pytest.approx(1.0 - values[1], abs=1e-12)
    rounds = analyse(graph).rounds
    assert values[1] ** rounds <= 1e-3 < values[1] ** (rounds - 1)


@pytest.mark.parametrize("name", CHANGING)
def test_the_gap_of_a_period_is_in_the_norm_of_p(name: str) -> None:
    graph = declared(name)
    product, root, left = np.eye(8), np.sqrt(P), [1.0]
    found = analyse(graph)
    for number in range(max(graph.period, found.rounds)):
        product = graph.weights_at(number) @ product
        left.append(np.linalg.norm(root[:, None] * (product - np.tile(P, (8, 1))) / root, 2))
    assert spectral_gap(graph) == pytest.approx(1.0 - left[graph.period], abs=1e-12)
    assert left[found.rounds] <= 1e-3 < left[found.rounds - 1]


@pytest.mark.parametrize("name", ["ring", "grid", "star", "fresh"])
def test_the_mean_is_kept_while_only_some_take_part(name: str) -> None:
    graphs = Participation(declared(name), 0.5, seed=3)
    for number in range(6):
        w = np.zeros((8, 8))
        for rank in range(8):
            for other, weight in graphs.at(number, rank).row.items():
                w[rank, other] = weight
        flow = P[:, None] * w
        np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-15)
        np.testing.assert_allclose(w.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(P @ w, P, rtol=1e-12)


def test_an_edge_that_is_lost_both_ways_keeps_the_mean_and_one_way_does_not() -> None:
    graph = declared("full")
    lost = {(1, 4), (4, 1), (0, 7), (7, 0)}

    def matrix(without: set[tuple[int, int]]) -> Dense:
        w = np.zeros((8, 8))
        for rank in range(8):
            heard = {other for other in range(8) if (rank, other) not in without}
            for other, weight in graph.at(0, rank).row.restricted_to(heard).items():
                w[rank, other] = weight
        return w

    np.testing.assert_allclose(P @ matrix(lost), P, rtol=1e-13)
    assert np.abs(P @ matrix({(1, 4)}) - P).max() > 1e-4


def test_a_digest_names_the_numbers() -> None:
    assert declared("ring").digest == declared("ring").digest != build("ring", 8).digest
    other = (401.0, *NUMBERS[1:])
    assert declared("ring").digest != declared("ring", other).digest
    assert declared("ring") != declared("ring", other)
    assert declared("ring").edges == build("ring", 8).edges
    assert build("ring", 3, weights="declared:4.0, 20,1e1").declared == (4.0, 20.0, 10.0)
    assert spelled([400, 0.5, 1e22]) == "declared:400,0.5,1e+22"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("declared", "no rank has a weight: write weight = NUMBER into each [rank.N] of the federation file"),
        ("declared:", "weights 'declared:': expected a number above 0 for each rank, such as declared:400,20,30"),
        ("declared:1,a,2", "weights 'declared:1,a,2': expected a number"),
        ("declared:1,0,2", "weights declared: 0: expected a number above 0"),
        ("declared:1,-3,2", "weights declared: -3: expected a number above 0"),
        ("declared:1,nan,2", "weights declared: nan: expected a number above 0"),
        ("declared:1,inf,2", "weights declared: inf: expected a number above 0"),
        ("declared:1,2", "weights declared: 2 numbers, and size is 3: expected"),
        ("declared:1,2,3,4", "weights declared: 4 numbers, and size is 3: expected"),
        ("declared:1,1e10,1", "weights declared: 1e+10 is more than 1e+09 times 1: give closer numbers"),
        ("declred", "unknown weights rule 'declred': did you mean 'declared'?"),
    ],
)
def test_wrong_numbers_are_refused(weights: str, message: str) -> None:
    with pytest.raises(TopologyError if weights.startswith("declared") else Exception) as raised:
        build("ring", 3, weights=weights)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["exponential-directed", "one-peer-exponential", "fresh-directed:2"])
def test_a_directed_graph_is_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="weights declared: peers of a directed graph hear others than hear them"):
        declared(name)


def test_a_graph_that_brings_its_weights_is_refused() -> None:
    with pytest.raises(TopologyError, match="weights declared: the graph brings the weights of its edges"):
        declared("examples/own_graph.py:weighted")
    assert declared("examples/own_graph.py:two_rings").declared == NUMBERS


def test_large_numbers_do_not_overflow() -> None:
    p = stationary((1e308, 1e308, 5e307))
    assert p.tolist() == pytest.approx([0.4, 0.4, 0.2])
    assert math.isfinite(spectral_gap(declared("ring", (1e308, 1e308, 5e307))))
