"""A hundred thousand peers: closed forms. A dense matrix of them would take 80 GB."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpeer.topology import analyse, build, spectral_gap
from dpeer.topology.graph_types import CirculantGraph
from dpeer.topology.mixing_matrix import CirculantMatrix

pytestmark = pytest.mark.slow

PEERS = 100_000
TORUS = (100, 160)


def cosine(turn: Fraction) -> tuple[float, float]:
    """1 - cos(2 pi turn), without cancellation, and sin(2 pi turn)."""
    turn = turn % 1
    turn = min(turn, 1 - turn) if turn <= Fraction(1, 2) else turn - 1
    return 2.0 * math.sin(math.pi * float(turn)) ** 2, math.sin(2.0 * math.pi * float(turn))


def gap_at(size: int, steps: list[int], weight: float, frequency: int) -> float:
    """1 - |eigenvalue| of a circulant matrix, each angle reduced exactly before it is rounded."""
    terms = [cosine(Fraction(frequency * step % size, size)) for step in steps]
    a, b = math.fsum(weight * cos for cos, _ in terms), math.fsum(weight * sin for _, sin in terms)
    squared = math.fsum([2.0 * a, -a * a, -b * b])
    return squared / (1.0 + math.sqrt(1.0 - squared))


@pytest.mark.parametrize("size", [201, 99_999, PEERS, 1_000_000])
def test_rings_have_the_gap_of_their_closed_form(size: int) -> None:
    expected = 4.0 / 3.0 * math.sin(math.pi / size) ** 2
    assert spectral_gap(build("ring", size)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("size", [3, 12, 1000, 1023, 99_991])
@pytest.mark.parametrize("name", ["ring", "exponential", "exponential-directed"])
@pytest.mark.parametrize("weights", ["metropolis", "best-constant"])
def test_circulants_have_the_gap_of_their_exact_sums(name: str, size: int, weights: str) -> None:
    mixing = build(name, size, weights=weights).mixing_at(0)
    assert isinstance(mixing, CirculantMatrix)
    steps = mixing.graph.offsets.tolist()
    values = np.abs(mixing.eigenvalues()[1:])
    # The exact sums near the transform's largest values; elsewhere nothing is close to them.
    near = 1 + np.flatnonzero(values > values.max() - 1e-9)
    frequencies = range(1, size) if size <= 12 else near[near <= size // 2].tolist()
    expected = min(gap_at(size, steps, mixing.weight, frequency) for frequency in frequencies)
    assert mixing.gap() == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 9, 64, 201])
@pytest.mark.parametrize("directed", [False, True])
def test_circulants_have_the_gap_of_their_dense_matrix(size: int, directed: bool) -> None:
    for reach in {min(reach, size - 1) for reach in (1, 2, 5)}:
        forward = [*range(1, reach + 1)]
        steps = forward if directed else [*forward, *(-step for step in forward)]
        graph = CirculantGraph.of(size, steps, directed=directed)
        for weight in (0.1 / len(graph.offsets), 1.0 / (1 + len(graph.offsets))):
            mixing = CirculantMatrix(graph, weight)
            dense = mixing.sparse.toarray()
            assert np.abs(dense.sum(axis=0) - 1.0).max() < 1e-12
            assert mixing.gap() == pytest.approx(1.0 - np.linalg.norm(dense - 1.0 / size, 2), rel=1e-9, abs=1e-12)


def test_the_torus_is_a_product_of_rings() -> None:
    found = analyse(build("torus", math.prod(TORUS), grid_shape=TORUS))
    expected = (2.0 - 2.0 * math.cos(2.0 * math.pi / max(TORUS))) / 5.0
    assert found.spectral_gap == pytest.approx(expected, rel=1e-6)
    assert (found.degree_min, found.degree_max) == (4, 4)


def test_the_grid_stands_between_its_bounds() -> None:
    # With weights 1/5 all over it would be a product of lines. Metropolis weights are as large or a little larger, on
    # the border, and at most a quarter.
    expected = (2.0 - 2.0 * math.cos(math.pi / max(TORUS))) / 5.0
    assert expected <= spectral_gap(build("grid", math.prod(TORUS), grid_shape=TORUS)) <= expected * 5.0 / 4.0
    small = build("grid", 1000, grid_shape=(25, 40), weights="max-degree")
    assert spectral_gap(small) == pytest.approx((2.0 - 2.0 * math.cos(math.pi / 40)) / 5.0, rel=1e-6)


def test_a_line_takes_the_inverse() -> None:
    # Lanczos iteration on the matrix would take tens of thousands of steps.
    line = build("grid", 10_000, grid_shape=(1, 10_000), weights="max-degree")
    assert spectral_gap(line) == pytest.approx(4.0 / 3.0 * math.sin(math.pi / 20_000.0) ** 2, rel=1e-6)


def test_the_star_and_the_full_graph_have_known_gaps() -> None:
    star = analyse(build("star", PEERS))
    assert star.spectral_gap == pytest.approx(1.0 / PEERS, rel=1e-6)
    assert (star.degree_min, star.degree_max) == (1, PEERS - 1)
    full = analyse(build("full", PEERS))
    assert (full.spectral_gap, full.rounds, full.bytes_per_round_factor) == (1.0, 1, PEERS - 1)


def test_exponential_graphs_have_known_gaps_at_powers_of_two() -> None:
    size = 1 << 16
    assert spectral_gap(build("exponential-directed", size)) == pytest.approx(2.0 / 17.0, rel=1e-12)
    assert spectral_gap(build("exponential", size)) == pytest.approx(2.0 / 16.0, rel=1e-12)
    assert spectral_gap(build("hypercube", 1 << 14)) == pytest.approx(2.0 / 15.0, rel=1e-6)
    found = analyse(build("one-peer-exponential", 1 << 17))
    assert (found.period, found.rounds, found.spectral_gap) == (17, 17, 1.0)
    for name in ("exponential-directed", "exponential", "one-peer-exponential"):
        assert 0.1 < spectral_gap(build(name, PEERS)) < 1.0


def test_random_graphs_mix_as_random_matrices_do() -> None:
    # Friedman's theorem: the second eigenvalue of a random 4-regular graph is close to 2 sqrt(3).
    found = analyse(build("random-regular", 20_000))
    assert found.spectral_gap == pytest.approx((4.0 - 2.0 * math.sqrt(3.0)) / 5.0, rel=0.01)


@pytest.mark.parametrize(
    ("name", "size", "lasting"),
    [
        ("random-matching", 10_000, 2.0),
        ("fresh-neighbors", 10_000, 5.0),
        pytest.param("fresh-neighbors", PEERS, 5.0, marks=pytest.mark.long),
        ("fresh-directed", 10_000, 5.0),
    ],
)
def test_time_varying_graphs_shrink_disagreement_in_few_rounds(name: str, size: int, lasting: float) -> None:
    found = analyse(build(name, size))
    assert 0.8 < found.spectral_gap < 1.0
    # Of a random disagreement's square a half is left after a round of pairs, a fifth among five; of the worst, more.
    rounds = math.log(1e6) / math.log(lasting)
    assert rounds <= found.rounds <= 2.0 * rounds
