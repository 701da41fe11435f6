"""`dpeer topology advise`: the ranking against dense matrices, and what is printed."""

import json
import re
import shlex
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpeer.cli.topology import topology
from dpeer.exceptions import ConfigurationError, TopologyError, UnknownName
from dpeer.topology import TOPOLOGIES, TimeVaryingTopology, build
from dpeer.topology.advice import Requirements, best, rank_graphs
from tests.thinning import only

pytestmark = pytest.mark.slow

GIVEN = ("--body-bytes", "45MB", "--bandwidth", "100Mbit")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(topology, ["advise", *arguments], env={"COLUMNS": "80"})


def printed(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exception is None, result.output
    return result.output


def parsed(*arguments: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(printed(*arguments, "--json"), parse_constant=refuse)


def by_name(*arguments: str) -> dict[str, Any]:
    return {one["topology"]: one for one in parsed(*arguments)["ranking"] if one["options"] == {}}


def expected(name: str, size: int, options: dict[str, Any], body: float, bits: float, fixed: float) -> dict[str, Any]:
    """The same from dense matrices, one round after the other, by the definitions."""
    graph = build(name, size, **options)
    center = np.eye(size) - 1.0 / size
    product, rounds = np.eye(size), 0
    sends = receives = 0
    sent, met = np.zeros(size), np.zeros((size, size), dtype=bool)
    while rounds == 0 or np.linalg.norm(center @ product @ center, ord=2) > 1e-3 * (1 + 1e-9):
        weights = graph.weights_at(rounds) if isinstance(graph, TimeVaryingTopology) else graph.weights
        product = weights @ product
        others = (weights != 0.0) & ~np.eye(size, dtype=bool)
        sends, receives = max(sends, others.sum(axis=0).max()), max(receives, others.sum(axis=1).max())
        sent += others.sum(axis=0)
        rounds += 1
    for number in range(20):  # the rounds of a run
        weights = graph.weights_at(number) if isinstance(graph, TimeVaryingTopology) else graph.weights
        met |= ((weights != 0.0) | (weights.T != 0.0)) & ~np.eye(size, dtype=bool)
    a_round = fixed + max(sends, receives) * body * 8 / bits
    return {
        "sends": sends,
        "receives": receives,
        "partners": met.sum(axis=1).max(),
        "rounds": rounds,
        "seconds_per_round": pytest.approx(a_round, rel=1e-9),
        "seconds": pytest.approx(rounds * a_round, rel=1e-9),
        "bytes_sent": sent.max() * body,
    }


@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 16, 27])
def test_the_ranking_is_what_dense_matrices_say(size: int) -> None:
    ranking = parsed("--size", str(size), *GIVEN, "--train-seconds", "2", "--latency", "20ms")["ranking"]
    assert len(ranking) >= 10
    for one in ranking:
        assert {name: one[name] for name in expected("full", 2, {}, 1, 1, 0)} == expected(
            one["topology"], size, one["options"], 45e6, 100e6, 2.02
        ), one
        assert one["size"] == size
        assert one["doubly_stochastic"] is (one["topology"] != "fresh-directed")
    keys = [(one["seconds"], one["bytes_sent"], one["topology"]) for one in ranking]
    assert keys == sorted(keys)


def test_other_weights_and_seeds_are_what_is_built() -> None:
    document = parsed("--size", "12", *GIVEN, "--weights", "best-constant", "--graph-seed", "5")
    options = {one["topology"]: one["options"] for one in document["ranking"]}
    assert options["ring"] == {"weights": "best-constant"}
    assert options["exponential-directed"] == {}
    assert options["erdos-renyi"] == {"weights": "best-constant", "graph_seed": 5}
    assert options["fresh-directed"].keys() == {"fresh_neighbors", "graph_seed"}
    for one in document["ranking"]:
        assert one["rounds"] == expected(one["topology"], 12, one["options"], 1, 1, 0)["rounds"]


def test_partners_are_those_of_the_run_that_is_planned() -> None:
    few, many = (by_name("--size", "16", *GIVEN, "--rounds", rounds)["random-matching"] for rounds in ("2", "100"))
    assert few["partners"] == 2
    assert many["partners"] == 15


def test_by_hand() -> None:
    found = by_name("--size", "16", *GIVEN)
    assert found["full"]["seconds"] == 54.0  # 15 bodies of 3.6 s
    assert found["full"]["bytes_sent"] == 15 * 45_000_000
    assert found["full"]["partners"] == 15
    quick = found["one-peer-exponential"]
    assert quick == {
        "topology": "one-peer-exponential",
        "options": {},
        "size": 16,
        "sends": 1,
        "receives": 1,
        "partners": 7,  # 1, 2, 4 and 8 up and down the circle; 8 is the same both ways
        "rounds": 4,
        "seconds_per_round": 3.6,
        "seconds": 14.4,
        "bytes_sent": 4 * 45_000_000,
        "doubly_stochastic": True,
        "survives": 3,  # each sends to four others in turn
    }
    assert found["star"]["seconds"] == pytest.approx(108 * 54.0)


def test_what_every_round_costs_favors_few_rounds() -> None:
    assert parsed("--size", "16", *GIVEN)["ranking"][0]["topology"] == "one-peer-exponential"
    assert parsed("--size", "16", *GIVEN, "--train-seconds", "1min")["ranking"][0]["topology"] == "full"
    assert by_name("--size", "16", *GIVEN, "--latency", "250ms")["full"]["seconds"] == 54.25


def test_the_busiest_end_counts() -> None:
    for one in parsed("--size", "20", *GIVEN)["ranking"]:
        busiest = max(one["sends"], one["receives"])
        assert one["seconds_per_round"] == pytest.approx(3.6 * busiest)
        if one["topology"] == "fresh-directed":  # who is drawn by many sends more than anybody hears
            assert one["sends"] > one["receives"] == one["options"]["fresh_neighbors"]


@pytest.mark.parametrize("most", [1, 3, 5, 6])
def test_max_degree_is_kept_in_every_round(most: int) -> None:
    document = parsed("--size", "16", *GIVEN, "--max-degree", str(most))
    assert all(max(one["sends"], one["receives"]) <= most for one in document["ranking"])
    every = parsed("--size", "16", *GIVEN)["ranking"]
    kept = [one for one in every if max(one["sends"], one["receives"]) <= most]
    assert [one for one in document["ranking"] if one in kept] == kept
    reasons = {one["topology"]: one["reason"] for one in document["left_out"]}
    assert reasons["full"] == (f"a peer sends or receives 15 messages in a round, more than --max-degree {most}")
    if most == 5:  # the degree allowed is tried too
        assert {"degree": 5} in [one["options"] for one in document["ranking"]]


@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 9, 16])
def test_every_graph_is_ranked_or_left_out_for_a_reason(size: int) -> None:
    document = parsed("--size", str(size), *GIVEN)
    assert {one["topology"] for part in ("ranking", "left_out") for one in document[part]} == set(TOPOLOGIES)
    for one in document["left_out"]:
        assert set(one) == {"topology", "options", "reason"}
        assert str(size) in one["reason"]
    output = printed("--size", str(size), *GIVEN)
    if document["left_out"]:
        assert all(one["topology"] in output.partition("Left out:")[2] for one in document["left_out"])
    else:
        assert "Left out" not in output


def test_what_does_not_exist_is_named_in_few_words() -> None:
    output = " ".join(printed("--size", "7", *GIVEN).split())
    assert (
        "Left out: grid, torus (a prime number makes no rectangle); hypercube (not a power of two); "
        "random-regular --degree 3, --fresh-neighbors 3 (odd degree of an odd number of peers)."
    ) in output
    output = " ".join(printed("--size", "16", *GIVEN, "--max-degree", "3", "--weights", "best-constant").split())
    assert "fresh-directed 2/3 (more than 3 in a round)" in output
    assert "random-matching, --fresh-neighbors 2/3 (weights for a graph that stays the same)" in output
    assert "star" in printed("--size", "6", *GIVEN, "--weights", "uniform").partition("Left out:")[2]


def test_the_example() -> None:
    lines = printed("--size", "16", *GIVEN, "--max-degree", "6").splitlines()
    assert lines[0] == "16 peers, body 45.0 MB, 100 Mbit/s up and down"
    assert lines[4].split() == ["one-peer-exponential", "1", "7", "4", "3.6", "s", "14.4", "s", "180.0", "MB", "3"]
    assert any(line.startswith("random-regular --degree 4 ") for line in lines)
    assert any(line.startswith("--fresh-neighbors 4 ") for line in lines)
    assert any(line.startswith("fresh-directed 2* ") for line in lines)
    assert lines[-2:] == ["Fastest:", "  dpeer cluster --size 16 --topology one-peer-exponential"]


@pytest.mark.parametrize("size", only(["2", "16", "250"], ["2", "3", "7", "16", "100", "250"]))
@pytest.mark.parametrize("more", [(), ("--train-seconds", "2min", "--latency", "20ms", "--weights", "max-degree")])
def test_it_fits_80_columns(size: str, more: tuple[str, ...]) -> None:
    output = printed("--size", size, *GIVEN, *more)
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    assert "do not predict accuracy" in " ".join(output.split())


def test_every_graph_has_one_line() -> None:
    lines = printed("--size", "36", *GIVEN, "--train-seconds", "2min").splitlines()
    rule = next(number for number, line in enumerate(lines) if line.startswith("──"))
    rows = [line for line in lines[rule + 1 :] if re.search(r"B( +\d+)?$", line)]
    assert len(rows) == len(parsed("--size", "36", *GIVEN)["ranking"])
    assert lines[rule + 1 + len(rows)].startswith("rounds:")


def test_even_absurd_numbers_lose_nothing() -> None:
    output = printed("--size", "30", "--body-bytes", "1000TB", "--bandwidth", "1bit")
    assert max(map(len, output.splitlines())) <= 80
    assert "…" not in output
    assert ">9999 days" in output
    parsed("--size", "30", "--body-bytes", "1000TB", "--bandwidth", "1bit")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--size", "2"),
        ("--size", "16"),
        ("--size", "12", "--weights", "max-degree", "--train-seconds", "60"),
        ("--size", "12", "--max-degree", "3", "--train-seconds", "60", "--graph-seed", "4"),
    ],
)
def test_the_command_runs_the_graph_that_was_ranked(arguments: tuple[str, ...]) -> None:
    command = printed(*GIVEN, *arguments).splitlines()[-1]
    options = shlex.split(command.removeprefix("  dpeer cluster "))
    shown = CliRunner().invoke(topology, ["show", *options, "--json"])
    assert shown.exception is None
    document = json.loads(shown.output)
    found = next(one for one in parsed(*GIVEN, *arguments)["ranking"] if one["topology"] == document["topology"])
    graph = build(found["topology"], found["size"], **found["options"])
    weights = graph.weights_at(0) if isinstance(graph, TimeVaryingTopology) else graph.weights
    first = document["rounds"][0] if "rounds" in document else document
    assert np.array_equal(weights, np.array(first["weights"]))


def test_a_graph_that_loses_the_average_is_not_recommended() -> None:
    ranked, _ = rank_graphs(Requirements(40, 45_000_000, 100e6, train_seconds=3600, max_degree=12, graph_seed=1))
    ranked = [one for one in ranked if one.topology not in ("fresh-neighbors",)]
    assert not ranked[0].doubly_stochastic
    assert best(ranked).doubly_stochastic
    assert best(ranked) == next(one for one in ranked if one.doubly_stochastic)


def test_equals_are_in_the_order_of_their_names_and_one_that_is_not_drawn_is_recommended() -> None:
    ranked, _ = rank_graphs(Requirements(3, 1000, 1e6))
    assert [one.topology for one in ranked[:3]] == ["erdos-renyi", "exponential", "exponential-directed"]
    assert best(ranked).topology == "exponential"
    assert all(a.seconds <= b.seconds for a, b in pairwise(ranked))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), ConfigurationError, "--body-bytes and --bandwidth must be given, for example dpeer topology advise"),
        (GIVEN[:2], ConfigurationError, "--bandwidth must be given"),
        (GIVEN[2:], ConfigurationError, "--body-bytes must be given"),
        (("--body-bytes", "45MB", "--bandwidth", "100MB"), ConfigurationError, "--bandwidth '100MB': write bits or"),
        (("--body-bytes", "-1", *GIVEN[2:]), ConfigurationError, "--body-bytes '-1': write bytes"),
        ((*GIVEN, "--latency", "soon"), ConfigurationError, "--latency 'soon'"),
        ((*GIVEN, "--train-seconds", "nan"), ConfigurationError, "--train-seconds 'nan'"),
        ((*GIVEN, "--max-degree", "0"), ConfigurationError, "--max-degree '0': write a whole number from 1 on"),
        ((*GIVEN, "--max-degree", "9" * 5000), ConfigurationError, "--max-degree"),
        ((*GIVEN, "--size", "eight"), ConfigurationError, "--size 'eight'"),
        ((*GIVEN, "--size", "1"), TopologyError, "at least 2 peers"),
        ((*GIVEN, "--size", "2001"), ConfigurationError, "--size 2001: graphs are compared up to 2000 peers"),
        ((*GIVEN, "--weights", "unifrom"), UnknownName, "did you mean 'uniform'"),
        ((*GIVEN, "--weights", "fastest", "--size", "33"), ConfigurationError, "up to 32 peers, not for 33"),
        ((*GIVEN, "--graph-seed", "-1"), ConfigurationError, "--graph-seed -1: choose 0 or more"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], error: type[ConfigurationError], message: str
) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, error)
    assert result.exception.exit_code == 2
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert result.output == ""


def test_the_help_says_the_model() -> None:
    assert max(map(len, printed("--help").splitlines())) <= 80
    output = " ".join(printed("--help").split())
    assert "the busiest peer" in output
    assert "up and as much down" in output
