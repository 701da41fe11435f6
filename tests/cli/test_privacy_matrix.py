"""`dpeer privacy matrix`."""

import json
import math
from statistics import fmean
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dpeer.cli.privacy import privacy
from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.privacy.gaussian import epsilon
from dpeer.privacy.pairwise_leakage import views
from dpeer.topology import TIME_VARYING, Topology, build


def run(*arguments: object) -> Result:
    return CliRunner().invoke(privacy, ["matrix", *map(str, arguments)], env={"COLUMNS": "80"})


def parsed(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exception is None, result.output
    return json.loads(result.output)


ASKED = ("--noise-multiplier", 4, "--rounds", 12)


def test_rows_are_means_over_the_pairs_of_a_distance() -> None:
    rows, pairs = (
        parsed("--topology", "grid", "--size", 6, *ASKED),
        parsed("--topology", "grid", "--size", 6, *ASKED, "--pairs"),
    )
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
    pairs = parsed("--topology", "exponential-directed", "--size", 6, *ASKED, "--pairs")
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
    arguments = ("--noise-multiplier", "4", "--rounds", "12", "--json")
    neighbor = json.loads(CliRunner().invoke(privacy, ["epsilon", *arguments]).output)["epsilon"]
    assert parsed("--size", 5, *ASKED)[0]["eps_guaranteed"] == pytest.approx(neighbor)


def test_aggregate_mode_is_about_the_noise_that_is_on_a_message() -> None:
    # 4 honest peers: half the noise on each message.
    aggregate = parsed(
        "--size", 5, "--noise-multiplier", 8, "--rounds", 12, "--dp-adversary", "aggregate", "--dp-min-honest", 4
    )
    plain = parsed("--size", 5, *ASKED)
    assert [row["mu2_openloop"] for row in aggregate] == pytest.approx([row["mu2_openloop"] for row in plain])


def test_a_target_is_met_by_the_nearest() -> None:
    rows = parsed("--size", 8, "--rounds", 30, "--target-epsilon", 5)
    assert 4.999999 < rows[0]["eps_guaranteed"] <= 5.0
    assert rows[-1]["eps_guaranteed"] < rows[0]["eps_guaranteed"]


def test_more_distance_than_rounds_is_zero() -> None:
    rows = parsed("--size", 8, "--rounds", 2, "--noise-multiplier", 4)
    assert [row["eps_guaranteed"] > 0 for row in rows] == [True, True, False, False]
    assert rows[3]["mu2_openloop"] == rows[3]["eps_openloop"] == 0.0


def test_another_accountant_is_never_below() -> None:
    exact, rdp = (parsed("--size", 6, *ASKED, "--accountant", accountant) for accountant in ("exact", "rdp"))
    for one, other in zip(exact, rdp, strict=True):
        assert one["eps_guaranteed"] < other["eps_guaranteed"] < 1.3 * one["eps_guaranteed"]


def test_the_estimate_is_called_one_and_stands_beside_the_guarantee() -> None:
    for pairs in ((), ("--pairs",)):
        output = run("--size", 6, *ASKED, *pairs).output
        assert "eps_guaranteed" in output
        assert "eps_openloop" in output
        assert output.count("(estimate)") == 3
        words = " ".join(output.split())
        assert "It is no guarantee." in words
        assert "one peer's whole data set, against one other peer at each distance, replace-one" in words


@pytest.mark.parametrize("name", sorted(TIME_VARYING))
def test_changing_graphs_are_refused_with_the_reason(name: str) -> None:
    result = run("--topology", name, "--size", 8, *ASKED)
    assert isinstance(result.exception, ConfigurationError)
    assert f"--topology {name}: it has another graph every round" in str(result.exception)
    assert result.output == ""


def test_what_would_take_hours_is_refused_at_once() -> None:
    result = run("--size", 1000, "--noise-multiplier", 4, "--rounds", 500)
    assert isinstance(result.exception, ConfigurationError)
    assert "--rounds 500 with 1000 peers" in str(result.exception)


def test_noise_and_a_target_at_once_are_refused() -> None:
    result = run("--size", 6, *ASKED, "--target-epsilon", 5)
    assert isinstance(result.exception, ConfigurationError)
    assert "--target-epsilon 5 with --noise-multiplier 4" in str(result.exception)


def test_delta_follows_the_size() -> None:
    assert isinstance(run("--size", 8, *ASKED, "--delta", 0.2).exception, ConfigurationError)
    assert "above 1/(10 N)" in run("--size", 8, *ASKED, "--delta", 0.05).output


def test_a_graph_that_there_is_not() -> None:
    assert isinstance(run("--topology", "rnig", *ASKED).exception, UnknownName)
