"""The mixing speed of graphs against closed forms (test_graph_contract.py has dense matrices), and its JSON."""

import math

import pytest

from dpeer.topology import analyse, build, paper_formula
from dpeer.topology.spectrum import rounds_to_agree


@pytest.mark.parametrize("size", [4, 8, 16, 32, 64, 128])
def test_exponential_graphs_meet_or_beat_the_papers_gap_at_powers_of_two(size: int) -> None:
    directed, symmetric = analyse(build("exponential-directed", size)), analyse(build("exponential", size))
    papers = 2.0 / (1.0 + math.log2(size))
    formula = {"name": "2 / (1 + log2 m)", "value": pytest.approx(papers, abs=1e-12)}
    assert directed.paper_formula == symmetric.paper_formula == formula
    assert directed.spectral_gap == pytest.approx(papers, abs=1e-12)
    assert symmetric.spectral_gap == pytest.approx(2.0 / math.log2(size), abs=1e-12)


@pytest.mark.parametrize("size", [8, 50, 200])
def test_the_papers_ring_is_four_times_the_gap(size: int) -> None:
    gap = analyse(build("ring", size)).spectral_gap
    assert gap == pytest.approx(4.0 / 3.0 * math.sin(math.pi / size) ** 2, rel=1e-9)
    paper = paper_formula("ring", size)
    assert paper["value"] == pytest.approx(16.0 * math.pi**2 / (3.0 * size**2))
    # 4 up to sin(x) < x: (x / sin x)^2 < 1 + x^2 / 2 for these
    assert 4.0 < paper["value"] / gap < 4.0 * (1.0 + (math.pi / size) ** 2 / 2.0)


@pytest.mark.parametrize(
    ("gap", "rounds"),
    [(0.9, 3), (0.9 - 1e-16, 3), (1.0 - 0.1**0.5, 6), (0.999, 1), (1.0 - 1e-5, 1), (0.89, 4), (1.0, 1)],
)
def test_exact_powers_are_not_lost_to_rounding(gap: float, rounds: int) -> None:
    assert rounds_to_agree(gap) == rounds


def test_the_json_document_has_its_keys_in_order() -> None:
    expected = {
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
        "rounds_to_half": 3,
    }
    found = analyse(build("grid", 9)).as_dict()
    assert found == expected
    assert list(found) == list(expected)


def test_the_gap_per_message_is_that_of_a_period_over_all_its_messages() -> None:
    found = analyse(build("one-peer-exponential", 16))
    assert (found.period, found.bytes_per_round_factor, found.spectral_gap) == (4, 1.0, 1.0)
    assert found.gap_per_message == 0.25
    assert analyse(build("fresh-directed", 8)).as_dict()["doubly_stochastic"] is False
