"""`dpeer privacy matrix`."""

import math
from statistics import fmean

import pytest

from dpeer.privacy.gaussian import epsilon
from dpeer.privacy.pairwise_leakage import views
from dpeer.topology import Topology, build
from tests.cli.command import parsed, text, words

MATRIX = ("privacy", "matrix", "--noise-multiplier", 4, "--rounds", 12)


def test_rows_are_means_over_the_pairs_of_a_distance() -> None:
    grid = (*MATRIX, "--topology", "grid", "--size", 6)
    rows, pairs = parsed(*grid), parsed(*grid, "--pairs")
    assert [list(row) for row in rows] == [["distance", "pairs", "eps_guaranteed", "eps_openloop", "mu2_openloop"]] * 3
    assert [row["distance"] for row in rows] == [1, 2, 3]
    assert sum(row["pairs"] for row in rows) == len(pairs) == 30
    for row in rows:
        of_it = [pair for pair in pairs if pair["distance"] == row["distance"]]
        assert len(of_it) == row["pairs"]
        for key in ("eps_guaranteed", "eps_openloop", "mu2_openloop"):
            assert row[key] == pytest.approx(fmean(pair[key] for pair in of_it))


def test_pairs_are_those_of_the_view_accountant() -> None:
    graph = build("exponential-directed", 6)
    assert isinstance(graph, Topology)
    found = views(graph.weights, 12, 2.0 / 4.0)
    pairs = parsed(*MATRIX, "--topology", "exponential-directed", "--size", 6, "--pairs")
    keys = ["source", "observer", "distance", "eps_guaranteed", "eps_openloop", "mu2_openloop"]
    for pair in pairs:
        assert list(pair) == keys
        at = pair["source"], pair["observer"]
        assert pair["distance"] == found.distance[at]
        assert pair["mu2_openloop"] == pytest.approx(found.mu2_openloop[at])
        assert pair["eps_guaranteed"] == pytest.approx(epsilon(math.sqrt(found.mu2_guaranteed[at]), 1e-5))
        assert pair["eps_openloop"] == pytest.approx(epsilon(math.sqrt(found.mu2_openloop[at]), 1e-5))
    assert any(pair["distance"] == 2 for pair in pairs)


def test_a_direct_neighbor_is_held_to_what_epsilon_prints() -> None:
    neighbor = parsed("privacy", "epsilon", *MATRIX[2:])["epsilon"]
    plain = parsed(*MATRIX, "--size", 5)
    assert plain[0]["eps_guaranteed"] == pytest.approx(neighbor)
    # With 4 honest peers half the noise is on each message.
    aggregate = parsed(
        *MATRIX, "--size", 5, "--noise-multiplier", 8, "--dp-adversary", "aggregate", "--dp-min-honest", 4
    )
    assert [row["mu2_openloop"] for row in aggregate] == pytest.approx([row["mu2_openloop"] for row in plain])
    rows = parsed("privacy", "matrix", "--size", 8, "--rounds", 30, "--target-epsilon", 5)
    assert 4.999999 < rows[0]["eps_guaranteed"] <= 5.0
    assert rows[-1]["eps_guaranteed"] < rows[0]["eps_guaranteed"]


def test_more_distance_than_rounds_is_zero() -> None:
    rows = parsed(*MATRIX, "--size", 8, "--rounds", 2)
    assert [row["eps_guaranteed"] > 0 for row in rows] == [True, True, False, False]
    assert rows[3]["mu2_openloop"] == rows[3]["eps_openloop"] == 0.0


def test_another_accountant_is_never_below() -> None:
    exact, rdp = (parsed(*MATRIX, "--size", 6, "--accountant", accountant) for accountant in ("exact", "rdp"))
    for one, other in zip(exact, rdp, strict=True):
        assert one["eps_guaranteed"] < other["eps_guaranteed"] < 1.3 * one["eps_guaranteed"]


@pytest.mark.parametrize("pairs", [(), ("--pairs",)])
def test_the_estimate_is_called_one_and_stands_beside_the_guarantee(pairs: tuple[str, ...]) -> None:
    output = text(*MATRIX, "--size", 6, *pairs)
    assert "eps_guaranteed" in output
    assert "eps_openloop" in output
    assert output.count("(estimate)") == 3
    found = words(*MATRIX, "--size", 6, *pairs)
    assert "It is no guarantee." in found
    assert "one peer's whole data set, against one other peer at each distance, replace-one" in found
    assert "above 1/(10 N)" in words(*MATRIX, "--size", 6, *pairs, "--delta", 0.05)
