"""Twenty thousand peers: closed forms. A dense matrix of them would take 3 GB."""

import math

import pytest

from dpeer.topology import analyse, build, spectral_gap

pytestmark = pytest.mark.slow

PEERS = 20_000
TORUS = (100, 160)


@pytest.mark.parametrize("size", [201, 19_999, PEERS])
def test_rings_have_the_gap_of_their_closed_form(size: int) -> None:
    expected = 4.0 / 3.0 * math.sin(math.pi / size) ** 2
    assert spectral_gap(build("ring", size)) == pytest.approx(expected, abs=1e-12)


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
