"""Twenty thousand peers: closed forms. A dense matrix of them would take 3 GB."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpeer.topology import analyse, build, spectral_gap

pytestmark = pytest.mark.slow

PEERS = 20_000
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


@pytest.mark.parametrize("size", [201, 19_999, PEERS])
def test_rings_have_the_gap_of_their_closed_form(size: int) -> None:
    expected = 4.0 / 3.0 * math.sin(math.pi / size) ** 2
    assert spectral_gap(build("ring", size)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("size", [3, 12, 1000, 1023, 19_997])
@pytest.mark.parametrize("name", ["ring", "exponential", "exponential-directed"])
@pytest.mark.parametrize("weights", ["metropolis", "best-constant"])
def test_circulants_have_the_gap_of_their_exact_sums(name: str, size: int, weights: str) -> None:
    mixing = build(name, size, weights=weights).mixing_at(0)
    column = mixing.sparse[:, [0]].toarray().ravel()
    steps = np.flatnonzero(column)
    steps, weight = steps[steps > 0].tolist(), float(column[1])
    values = np.abs(np.fft.fft(column)[1:])
    # The exact sums near the transform's largest values; elsewhere nothing is close to them.
    near = 1 + np.flatnonzero(values > values.max() - 1e-9)
    frequencies = range(1, size) if size <= 12 else near[near <= size // 2].tolist()
    expected = min(gap_at(size, steps, weight, frequency) for frequency in frequencies)
    assert spectral_gap(build(name, size, weights=weights)) == pytest.approx(expected, abs=1e-12)


def test_the_torus_is_a_product_of_rings() -> None:
    found = analyse(build("torus:{}x{}".format(*TORUS), math.prod(TORUS)))
    expected = (2.0 - 2.0 * math.cos(2.0 * math.pi / max(TORUS))) / 5.0
    assert found.spectral_gap == pytest.approx(expected, rel=1e-6)
    assert (found.degree_min, found.degree_max) == (4, 4)


def test_a_line_takes_the_inverse() -> None:
    # Lanczos iteration on the matrix would take tens of thousands of steps.
    line = build("grid:1x10000", 10_000, weights="max-degree")
    assert spectral_gap(line) == pytest.approx(4.0 / 3.0 * math.sin(math.pi / 20_000.0) ** 2, rel=1e-6)


def test_the_star_and_the_full_graph_have_known_gaps() -> None:
    star = analyse(build("star", PEERS))
    assert star.spectral_gap == pytest.approx(1.0 / PEERS, rel=1e-6)
    assert (star.degree_min, star.degree_max) == (1, PEERS - 1)
    full = analyse(build("full", 1000))
    assert (full.spectral_gap, full.rounds, full.bytes_per_round_factor) == (1.0, 1, 999)


def test_exponential_graphs_have_known_gaps_at_powers_of_two() -> None:
    size = 1 << 13
    assert spectral_gap(build("exponential-directed", size)) == pytest.approx(2.0 / 14.0, rel=1e-12)
    assert spectral_gap(build("exponential", size)) == pytest.approx(2.0 / 13.0, rel=1e-12)
    assert spectral_gap(build("hypercube", 1 << 12)) == pytest.approx(2.0 / 13.0, rel=1e-6)
    found = analyse(build("one-peer-exponential", size))
    assert (found.period, found.rounds, found.spectral_gap) == (13, 13, 1.0)
    for name in ("exponential-directed", "exponential", "one-peer-exponential"):
        assert 0.1 < spectral_gap(build(name, PEERS)) < 1.0
