"""How fast graphs mix, against closed forms and against doing it the long way."""

import math

import numpy as np
import pytest

from dpeer.exceptions import TopologyError
from dpeer.topology import TOPOLOGIES, analyse, build, disagreement, paper_formula, spectrum
from dpeer.topology.graphs import GRAPHS
from dpeer.topology.spectrum import SPECTRUM_LIMIT, rounds_to_agree

POWERS = [4, 8, 16, 32, 64, 128]
FIXED = tuple(GRAPHS)


@pytest.mark.parametrize("size", [3, 4, 5, 8, 17, 100])
def test_ring(size: int) -> None:
    expected = (1.0 + 2.0 * math.cos(2.0 * math.pi / size)) / 3.0
    # at 4 the smallest eigenvalue, -1/3, is the larger in size
    expected = 1.0 / 3.0 if size == 4 else expected
    assert analyse(build("ring", size)).second_singular_value == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("size", [2, 3, 8, 33])
def test_full_averages_in_one_round(size: int) -> None:
    found = analyse(build("full", size))
    assert (found.second_singular_value, found.spectral_gap, found.rounds) == (0.0, 1.0, 1)
    assert found.bytes_per_round_factor == size - 1


@pytest.mark.parametrize("size", [3, 8, 50])
def test_star(size: int) -> None:
    found = analyse(build("star", size))
    assert found.spectral_gap == pytest.approx(1.0 / size)
    assert (found.degree_min, found.degree_max) == (1, size - 1)
    assert found.bytes_per_round_factor == pytest.approx(2.0 * (size - 1) / size)


@pytest.mark.parametrize("size", POWERS)
def test_directed_exponential_has_the_papers_gap_at_powers_of_two(size: int) -> None:
    found = analyse(build("exponential-directed", size))
    assert found.paper_formula is not None
    assert found.spectral_gap == pytest.approx(found.paper_formula.value, abs=1e-12)
    assert found.spectral_gap == pytest.approx(2.0 / (1.0 + math.log2(size)), abs=1e-12)


@pytest.mark.parametrize("size", POWERS)
def test_the_symmetric_exponential_graph_has_a_larger_gap_than_the_papers_give_it(size: int) -> None:
    found = analyse(build("exponential", size))
    assert found.spectral_gap == pytest.approx(2.0 / math.log2(size), abs=1e-12)
    assert found.paper_formula is not None
    assert found.paper_formula.value == pytest.approx(2.0 / (1.0 + math.log2(size)), abs=1e-12)


def test_the_directed_exponential_graph_misses_the_papers_formula_elsewhere() -> None:
    found = analyse(build("exponential-directed", 12))
    assert found.paper_formula is not None
    assert found.paper_formula.value is not None
    assert abs(found.spectral_gap - found.paper_formula.value) > 0.01


@pytest.mark.parametrize("size", [8, 50, 200])
def test_the_papers_ring_is_four_times_the_gap(size: int) -> None:
    gap = analyse(build("ring", size)).spectral_gap
    assert gap == pytest.approx(4.0 / 3.0 * math.sin(math.pi / size) ** 2, rel=1e-9)
    paper = paper_formula("ring", size)
    assert paper is not None
    assert paper.value == pytest.approx(16.0 * math.pi**2 / (3.0 * size**2))
    # 4 up to sin(x) < x: (x / sin x)^2 < 1 + x^2 / 2 for these
    assert 4.0 < paper.value / gap < 4.0 * (1.0 + (math.pi / size) ** 2 / 2.0)


@pytest.mark.parametrize("name", ["grid", "torus"])
def test_lattices_have_a_gap_of_order_one_over_m(name: str) -> None:
    # The papers' 1 / (m log2 m) for the grid is a lower bound that these weights beat.
    scaled = [analyse(build(name, side * side)).spectral_gap * side * side for side in (12, 16)]
    limit = {"grid": math.pi**2 / 5.0, "torus": 4.0 * math.pi**2 / 5.0}[name]
    assert scaled == pytest.approx([limit] * 2, rel=0.05)


@pytest.mark.parametrize(
    ("gap", "rounds"),
    [(0.9, 3), (0.9 - 1e-16, 3), (1.0 - 0.1**0.5, 6), (0.999, 1), (1.0 - 1e-5, 1), (0.89, 4), (1.0, 1)],
)
def test_exact_powers_are_not_lost_to_rounding(gap: float, rounds: int) -> None:
    assert rounds_to_agree(gap) == rounds


@pytest.mark.parametrize("size", [4, 12])
@pytest.mark.parametrize("name", ["ring", "star", "random-matching", "one-peer-exponential", "fresh-directed"])
def test_disagreement_is_what_is_left_after_every_round(name: str, size: int) -> None:
    graph = build(name, size, fresh_neighbors=2)
    expected, product, away = [1.0], np.eye(size), np.eye(size) - 1.0 / size
    for number in range(6):
        product = graph.mixing_at(number).sparse @ product
        expected.append(float(np.linalg.norm(away @ product @ away, 2)))
    assert disagreement(graph, 6) == pytest.approx(expected, abs=1e-12)


def test_the_spectrum_is_that_of_the_matrix_or_of_a_period() -> None:
    ring = [abs(1.0 + 2.0 * math.cos(2.0 * math.pi * k / 7)) / 3.0 for k in range(7)]
    assert spectrum(build("ring", 7)) == pytest.approx(sorted(ring, reverse=True), abs=1e-12)
    assert spectrum(build("one-peer-exponential", 8)) == pytest.approx([1.0] + [0.0] * 7, abs=1e-12)


@pytest.mark.parametrize("name", ["grid", "exponential-directed", "random-matching", "fresh-directed"])
def test_the_second_of_the_spectrum_is_lambda(name: str) -> None:
    graph = build(name, 12)
    found = spectrum(graph)
    assert found[:2] == pytest.approx([1.0, analyse(graph).second_singular_value], abs=1e-12)
    assert list(found) == sorted(found, reverse=True)
    assert found.shape == (12,)
    with pytest.raises(TopologyError, match=f"at most {SPECTRUM_LIMIT} peers"):
        spectrum(build("ring", SPECTRUM_LIMIT + 1))


def test_json_keys_in_their_order() -> None:
    assert analyse(build("grid", 9)).as_dict() == {
        "topology": "grid",
        "size": 9,
        "lambda": pytest.approx(0.767423461417477),
        "spectral_gap": pytest.approx(0.232576538582523),
        "rounds_to_1e-3": 27,
        "degree_min": 2,
        "degree_max": 4,
        "bytes_per_round_factor": pytest.approx(8 / 3),
        "paper_formula": {"name": "O(1 / (m log2 m))", "value": None},
        "gap_per_message": pytest.approx(0.232576538582523 * 3 / 8),
        "period": 1,
        "doubly_stochastic": True,
    }
    assert list(analyse(build("ring", 8)).as_dict()) == [
        "topology",
        "size",
        "lambda",
        "spectral_gap",
        "rounds_to_1e-3",
        "degree_min",
        "degree_max",
        "bytes_per_round_factor",
        "paper_formula",
        "gap_per_message",
        "period",
        "doubly_stochastic",
    ]


def test_the_gap_per_message_is_that_of_a_period_over_all_its_messages() -> None:
    found = analyse(build("one-peer-exponential", 16))
    assert (found.period, found.bytes_per_round_factor, found.spectral_gap) == (4, 1.0, 1.0)
    assert found.gap_per_message == 0.25
    assert analyse(build("fresh-directed", 8)).as_dict()["doubly_stochastic"] is False


def test_the_papers_graphs_are_set_beside_the_papers() -> None:
    named = [name for name in TOPOLOGIES if paper_formula(name, 8) is not None]
    first = ["ring", "grid", "torus", "exponential", "exponential-directed", "full", "star", "random-regular"]
    assert named == first
    assert paper_formula("moebius", 8) is None


def test_gossip_with_rows_shrinks_disagreement_as_computed() -> None:
    # The whole of it as a peer does it: rows from `at`, round by round, against the analysis.
    graph = build("grid", 12)
    rounds = analyse(graph).rounds
    values = np.eye(12)
    for number in range(rounds):
        rows = [graph.at(number, rank).row for rank in range(12)]
        values = np.array([sum(weight * values[j] for j, weight in row.items()) for row in rows])
    assert np.linalg.norm(values - 1.0 / 12.0, 2) <= 1e-3
