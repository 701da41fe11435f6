"""The view accountant against the covariance written down in full."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from dpeer.privacy.pairwise_leakage import seen_by, views, work
from dpeer.topology import Topology, build

Array = NDArray[np.float64]

PATH = np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3.0
CHAIN = np.array([[0.9, 0.1, 0.0, 0.0], [0.3, 0.3, 0.4, 0.0], [0.0, 0.5, 0.25, 0.25], [0.0, 0.0, 0.7, 0.3]])
ONE_WAY = np.array([[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0, 0.2, 0.5, 0.3], [0.4, 0.0, 0.0, 0.6]])


def weights_of(name: str, size: int) -> Array:
    graph = build(name, size)
    assert isinstance(graph, Topology)
    return graph.weights


GRAPHS = {
    "path": PATH,
    "ring": weights_of("ring", 4),
    "star": weights_of("star", 5),
    "ring-6": weights_of("ring", 6),
    "directed": weights_of("exponential-directed", 6),
    "asymmetric": CHAIN,
    "one-way": ONE_WAY,
}


def seen(weights: Array, rounds: int, observer: int) -> tuple[Array, list[tuple[int, int]]]:
    """A, straight from the powers of W, and the (round, peer) of each of its columns."""
    size = len(weights)
    columns = [(t, peer) for t in range(rounds) for peer in range(size) if peer != observer]
    rows = [(t, peer) for t in range(rounds) for peer in range(size) if peer != observer and weights[observer, peer]]
    matrix = np.zeros((len(rows), len(columns)))
    for (row, (now, sender)), (column, (then, peer)) in itertools.product(enumerate(rows), enumerate(columns)):
        if then <= now:
            matrix[row, column] = np.linalg.matrix_power(weights, now - then)[sender, peer]
    return matrix, columns


def of_source(weights: Array, rounds: int, source: int, observer: int) -> Array:
    """The (T, T) covariance form of one source: d^T A^T (A A^T)^+ A d."""
    matrix, columns = seen(weights, rounds, observer)
    projection = matrix.T @ np.linalg.pinv(matrix @ matrix.T) @ matrix if matrix.size else np.zeros((len(columns),) * 2)
    own = [place for place, (_, peer) in enumerate(columns) if peer == source]
    return np.asarray(projection[np.ix_(own, own)])


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_it_is_the_covariance_written_down(name: str, rounds: int) -> None:
    weights = GRAPHS[name]
    found = views(weights, rounds, 1.0)
    for source, observer in itertools.permutations(range(len(weights)), 2):
        form = of_source(weights, rounds, source, observer)
        assert found.mu2_openloop[source, observer] == pytest.approx(min(np.abs(form).sum(), rounds), abs=1e-9)


@pytest.mark.parametrize("name", GRAPHS)
def test_no_change_is_seen_better_and_where_nothing_is_negative_one_is_seen_as_well(name: str) -> None:
    weights, rounds = GRAPHS[name], 5
    found = views(weights, rounds, 1.0)
    random = np.random.default_rng(0)
    for source, observer in itertools.permutations(range(len(weights)), 2):
        form = of_source(weights, rounds, source, observer)
        signs = np.array(list(itertools.product([-1.0, 1.0], repeat=rounds)))
        best = max(float(d @ form @ d) for d in signs)
        # Changes need not lie on one line: vectors of up to length 1 in three dimensions.
        for _ in range(50):
            d = random.normal(size=(rounds, 3))
            d /= np.linalg.norm(d, axis=1, keepdims=True)
            assert np.trace(d.T @ form @ d) <= found.mu2_openloop[source, observer] + 1e-9
        assert best <= found.mu2_openloop[source, observer] + 1e-9
        if form.min() >= -1e-12:
            assert best == pytest.approx(found.mu2_openloop[source, observer], abs=1e-9)


def test_what_cannot_have_arrived_is_not_seen() -> None:
    found = views(weights_of("ring", 8), 3, 2.0)
    assert found.distance[0].tolist() == [0, 1, 2, 3, 4, 3, 2, 1]
    assert found.mu2_guaranteed[0].tolist() == [np.inf, 12.0, 8.0, 4.0, 0.0, 4.0, 8.0, 12.0]
    assert found.mu2_openloop[0, 4] == 0.0
    assert found.mu2_openloop[0, 3] > 0.0


def test_directions_and_peers_that_are_never_heard() -> None:
    found = views(ONE_WAY, 4, 1.0)
    assert found.distance[1, 2] == 1
    assert found.distance[2, 1] == math.inf
    assert found.mu2_guaranteed[2, 1] == found.mu2_openloop[2, 1] == 0.0
    # Peer 0 hears nobody; peer 1 hears peer 0, whose messages are its noises alone.
    assert found.mu2_openloop[1:, 0].tolist() == [0.0, 0.0, 0.0]
    assert found.mu2_openloop[0, 1] == pytest.approx(4.0)


def test_a_very_small_weight_carries_everything_all_the_same() -> None:
    weights = np.array([[1.0, 0.0, 0.0], [1e-13, 1.0 - 1e-13, 0.0], [0.0, 1.0, 0.0]])
    found = views(weights, 2, 1.0)
    assert found.distance[0].tolist() == [0.0, 1.0, 2.0]
    assert found.mu2_guaranteed[0, 1] == 2.0
    assert found.mu2_openloop[0, 1] == pytest.approx(2.0)


def test_the_rule_of_signs_alone_would_exceed_the_guarantee() -> None:
    # No change has all the signs that sum |M| takes, and the bound T knows nothing of what cannot have arrived.
    weights = np.array(
        [[0, 0, 1, 0, 0], [0.08, 0, 0, 0, 0.92], [0, 0.01, 0.89, 0.1, 0], [0, 0, 0.02, 0.98, 0], [0, 0, 1, 0, 0]]
    )
    assert seen_by(1, weights, 21)[2] > 20.8
    found = views(weights, 21, 1.0)
    assert found.distance[2, 1] == 2.0
    assert found.mu2_guaranteed[2, 1] == found.mu2_openloop[2, 1] == 20.0


@st.composite
def matrices(draw: st.DrawFn) -> Array:
    size = draw(st.integers(2, 7))
    weights = draw(arrays(np.float64, (size, size), elements=st.sampled_from([0.0, 0.0, 0.0, 0.01, 0.3, 1.0, 5.0])))
    weights[np.arange(size), (np.arange(size) + 1) % size] += 0.2
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(matrices(), st.integers(1, 12), st.floats(0.01, 10.0))
def test_the_estimate_is_never_above_the_guarantee(weights: Array, rounds: int, ratio: float) -> None:
    found = views(weights, rounds, ratio)
    away = ~np.eye(len(weights), dtype=bool)
    assert (found.mu2_openloop[away] <= found.mu2_guaranteed[away] * (1.0 + 1e-9)).all()
    assert (found.mu2_guaranteed[away] <= rounds * ratio**2 * (1.0 + 1e-12)).all()
    assert (found.mu2_openloop >= 0.0).all()


@settings(deadline=None, max_examples=40)
@given(matrices(), st.integers(1, 6))
def test_random_matrices_against_the_covariance(weights: Array, rounds: int) -> None:
    for observer in range(len(weights)):
        found = seen_by(observer, weights, rounds)
        assert found[observer] == 0.0
        for source in set(range(len(weights))) - {observer}:
            form = of_source(weights, rounds, source, observer)
            assert found[source] == pytest.approx(min(np.abs(form).sum(), rounds), abs=1e-6)


def test_what_it_takes_is_known_before() -> None:
    ring = weights_of("ring", 16)
    multiplications, held = work(ring, 100)
    assert multiplications == pytest.approx(16 * (200**2 * (2 * 1300 + 200) + 200 * 100 * 1500))
    assert held > 8 * 200 * 1300
    assert work(weights_of("full", 16), 10**6) == (0.0, 0.0)
