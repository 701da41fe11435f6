"""`dpeer topology advise`: the ranking against dense matrices, and what is printed."""

import math
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dpeer.cli.main import group
from dpeer.exceptions import ConfigurationError
from dpeer.federation.measured_lines import keep
from dpeer.topology import TOPOLOGIES, TimeVaryingTopology, build
from dpeer.topology.advice import Requirements, best, rank_graphs
from dpeer.topology.overlapped_mixing import late_rounds
from dpeer.topology.transfer_time import LineSpeed, MeasuredLines
from tests.cli.command import output, parsed, text, words

pytestmark = pytest.mark.slow

ADVISE = ("topology", "advise", "--body-bytes", "45MB", "--bandwidth", "100Mbit", "--size")


def by_name(*arguments: object) -> dict[str, Any]:
    return {one["topology"]: one for one in parsed(*ADVISE, *arguments)["ranking"] if one["options"] == {}}


def expected(name: str, size: int, options: dict[str, Any], fixed: float) -> dict[str, Any]:
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
    a_round = fixed + max(sends, receives) * 3.6
    return {
        "sends": sends,
        "receives": receives,
        "partners": met.sum(axis=1).max(),
        "rounds": rounds,
        "seconds_per_round": pytest.approx(a_round, rel=1e-9),
        "seconds": pytest.approx(rounds * a_round, rel=1e-9),
        "bytes_sent": sent.max() * 45_000_000,
    }


@pytest.mark.parametrize("size", [2, 7, 16])
def test_the_ranking_is_what_dense_matrices_say(size: int) -> None:
    ranking = parsed(*ADVISE, size, "--train-seconds", 2, "--latency", "20ms")["ranking"]
    assert len(ranking) >= 10
    for one in ranking:
        facts = expected(one["topology"], size, one["options"], 2.02)
        assert {name: one[name] for name in facts} == facts, one
        assert one["size"] == size
        assert one["doubly_stochastic"] is (one["topology"] != "fresh-directed")
    keys = [(one["seconds"], one["bytes_sent"], one["topology"]) for one in ranking]
    assert keys == sorted(keys)


def test_other_weights_and_seeds_are_what_is_built() -> None:
    ranking = parsed(*ADVISE, 12, "--weights", "best-constant", "--graph-seed", 5)["ranking"]
    options = {one["topology"]: one["options"] for one in ranking}
    assert options["ring"] == {"weights": "best-constant"}
    assert options["exponential-directed"] == {}
    assert options["erdos-renyi"] == {"weights": "best-constant", "graph_seed": 5}
    assert options["fresh-directed"].keys() == {"fresh_neighbors", "graph_seed"}
    for one in ranking:
        assert one["rounds"] == expected(one["topology"], 12, one["options"], 0)["rounds"]


def test_by_hand() -> None:
    found = by_name(16)
    assert found["full"]["seconds"] == 54.0  # 15 bodies of 3.6 s
    assert found["full"]["bytes_sent"] == 15 * 45_000_000
    assert found["full"]["partners"] == 15
    assert found["one-peer-exponential"] == {
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
        "survives_edges": 3,
    }
    assert found["star"]["seconds"] == pytest.approx(108 * 54.0)
    assert next(iter(found)) == "one-peer-exponential"
    slow = by_name(8, "--train-seconds", "1min", "--latency", "250ms", "--rounds", 2)
    assert next(iter(slow)) == "full", "what every round costs favors few rounds"
    assert slow["full"]["seconds"] == 60 + 0.25 + 7 * 3.6
    assert slow["random-matching"]["partners"] == 2
    assert by_name(8, "--rounds", 100)["random-matching"]["partners"] == 7


def test_the_busiest_end_counts() -> None:
    for one in parsed(*ADVISE, 20)["ranking"]:
        assert one["seconds_per_round"] == pytest.approx(3.6 * max(one["sends"], one["receives"]))
        if one["topology"] == "fresh-directed":  # a peer that many draw sends more than any of them hears
            assert one["sends"] > one["receives"] == one["options"]["fresh_neighbors"]


@pytest.mark.parametrize("most", [5])
def test_max_degree_is_kept_in_every_round(most: int) -> None:
    document = parsed(*ADVISE, 16, "--max-degree", most)
    assert all(max(one["sends"], one["receives"]) <= most for one in document["ranking"])
    kept = [one for one in parsed(*ADVISE, 16)["ranking"] if max(one["sends"], one["receives"]) <= most]
    assert [one for one in document["ranking"] if one in kept] == kept
    reasons = {one["topology"]: one["reason"] for one in document["left_out"]}
    assert reasons["full"] == f"a peer sends or receives 15 messages in a round, more than --max-degree {most}"
    if most == 5:  # the degree allowed is tried too
        assert {"degree": 5} in [one["options"] for one in document["ranking"]]


@pytest.mark.parametrize("size", [2, 7])
def test_every_graph_is_ranked_in_one_line_or_left_out_for_a_reason(size: int) -> None:
    document = parsed(*ADVISE, size)
    assert {one["topology"] for part in ("ranking", "left_out") for one in document[part]} == set(TOPOLOGIES)
    for one in document["left_out"]:
        assert set(one) == {"topology", "options", "reason"}
        assert str(size) in one["reason"]
    printed = text(*ADVISE, size)
    left_out = printed.partition("Left out:")[2]
    assert all(one["topology"] in left_out for one in document["left_out"])
    assert bool(left_out) == bool(document["left_out"])
    lines = printed.splitlines()
    rule = next(number for number, line in enumerate(lines) if line.startswith("──"))
    rows = [line for line in lines[rule + 1 :] if re.search(r"B( +\d+/\d+)?$", line)]
    assert len(rows) == len(document["ranking"])
    assert lines[rule + 1 + len(rows)].startswith("rounds:")


def test_what_does_not_exist_is_named_in_few_words() -> None:
    assert (
        "Left out: grid, torus (a prime number makes no rectangle); hypercube (not a power of two); "
        "random-regular --degree 3, --fresh-neighbors 3 (odd degree of an odd number of peers)."
    ) in words(*ADVISE, 7)
    found = words(*ADVISE, 16, "--max-degree", 3, "--weights", "best-constant")
    assert "fresh-directed 2/3 (more than 3 in a round)" in found
    assert "random-matching, --fresh-neighbors 2/3 (weights for a graph that stays the same)" in found
    assert "star" in text(*ADVISE, 6, "--weights", "uniform").partition("Left out:")[2]


def test_the_example() -> None:
    lines = text(*ADVISE, 16, "--max-degree", 6).splitlines()
    assert lines[0] == "16 peers, body 45.0 MB, 100 Mbit/s up and down"
    assert lines[4].split() == ["one-peer-exponential", "1", "7", "4", "3.6", "s", "14.4", "s", "180.0", "MB", "3/3"]
    for start in ("random-regular --degree 4 ", "--fresh-neighbors 4 ", "fresh-directed 2* "):
        assert any(line.startswith(start) for line in lines)
    assert lines[-2:] == ["Fastest:", "  dpeer cluster --size 16 --topology one-peer-exponential"]


def test_it_fits_80_columns_however_large_numbers_are() -> None:
    more = ("--train-seconds", "2min", "--latency", "20ms", "--weights", "max-degree")
    assert "do not predict accuracy" in " ".join(text(*ADVISE, 60, *more).split())
    assert ">9999 days" in text(*ADVISE, 9, "--body-bytes", "1000TB", "--bandwidth", "1bit")
    model = text("topology", "advise", "--help")
    assert "the busiest peer" in model
    assert "up and as much down" in model


@pytest.mark.parametrize(
    "arguments", [(2,), (8,), (12, "--max-degree", 3, "--train-seconds", 60, "--graph-seed", 4)], ids=str
)
def test_the_command_runs_the_graph_that_was_ranked(arguments: tuple[object, ...]) -> None:
    command = output(*ADVISE, *arguments).splitlines()[-1]
    document = parsed("topology", "show", *shlex.split(command.removeprefix("  dpeer cluster ")))
    ranking = parsed(*ADVISE, *arguments)["ranking"]
    found = next(one for one in ranking if one["topology"] == document["topology"])
    graph = build(found["topology"], found["size"], **found["options"])
    weights = graph.weights_at(0) if isinstance(graph, TimeVaryingTopology) else graph.weights
    first = document["rounds"][0] if "rounds" in document else document
    assert np.array_equal(weights, np.array(first["weights"]))


def test_overlap_and_compression_by_hand() -> None:
    options = ("--train-seconds", 5, "--latency", "50ms", "--overlap", 1, "--compress", "int8")
    found = {one["topology"]: one for one in parsed(*ADVISE, 8, *options)["ranking"]}
    body = 16 + 11_250_000 + 4 * math.ceil(11_250_000 / 1024)  # a byte a value, and a scale for each 1024
    exchange = 0.05 + 7 * body * 8 / 100e6
    assert found["full"]["seconds_per_round"] == pytest.approx(exchange)
    assert exchange > 5
    assert found["ring"]["seconds_per_round"] == 5.0, "the exchange is hidden"
    assert found["ring"]["bytes_sent"] == 2 * body * found["ring"]["rounds"]
    plain = by_name(8, "--train-seconds", 5, "--latency", "50ms")
    assert found["ring"]["rounds"] == late_rounds(build("ring", 8)) > plain["ring"]["rounds"]
    printed = output(*ADVISE, 8, *options)
    assert printed.splitlines()[-1].endswith("--overlap 1 --compress int8")
    assert "the longer of training and latency" in " ".join(printed.split())


def test_codecs_that_need_the_same_neighbors_leave_out_graphs_that_change() -> None:
    document = parsed(*ADVISE, 8, "--compress", "topk:0.05")
    changing = {name for name in TOPOLOGIES if isinstance(build(name, 8), TimeVaryingTopology)}
    assert not changing & {one["topology"] for one in document["ranking"]}
    reasons = {one["topology"]: one["reason"] for one in document["left_out"]}
    assert {reasons[name] for name in changing} == {"--compress topk:0.05 needs the same neighbors in every round"}
    found = {one["topology"]: one for one in document["ranking"]}
    body = 11_250_000 * 0.05 * 4  # an index and a value of two bytes each
    assert found["ring"]["bytes_sent"] == pytest.approx(2 * body * found["ring"]["rounds"], rel=1e-3)
    assert "agreement takes more rounds" in words(*ADVISE, 8, "--compress", "topk:0.05")
    assert parsed(*ADVISE, 8, "--compress", "int8")["ranking"][0]["topology"] == "one-peer-exponential"


def far_site(folder: Path) -> None:
    """Four sites: each has 100 Mbit/s, but the line to rank 3, which has 10 Mbit/s and 100 ms."""
    fast, slow = LineSpeed(100e6, 100e6, 0.0), LineSpeed(100e6, 10e6, 0.1)
    keep(folder, 0, {1: fast, 2: fast, 3: slow})
    keep(folder, 1, {2: fast, 3: slow})


def test_measured_lines_take_the_place_of_a_bandwidth(in_tmp_path: Path) -> None:
    far_site(in_tmp_path / "dpeer-run")
    body = ("topology", "advise", "--body-bytes", "1MB", "--size", 4)
    found = {one["topology"]: one for one in parsed(*body)["ranking"]}
    slow = 8e6 / 10e6
    start = 0.1 * (0.5 + math.log2(10e6 / 8 * 0.1 / 14_600) - 1)
    assert found["full"]["seconds_per_round"] == pytest.approx(3 * slow + start), "rank 3 sends three bodies"
    assert found["ring"]["seconds_per_round"] == pytest.approx(2 * slow + start)
    assert found["star"]["seconds_per_round"] == pytest.approx(slow + start), "rank 3 sends one, at 10 Mbit/s"
    assert parsed(*body, "--lines", "dpeer-run") == parsed(*body)
    printed = words(*body)
    assert "5 measured lines of 10 Mbit/s to 100 Mbit/s, round trips 0 ms to 100 ms" in printed
    plain = parsed(*body, "--bandwidth", "100Mbit")["ranking"]
    assert plain != parsed(*body)["ranking"], "a stated rate wins over files that merely lie there"


def test_a_body_is_as_large_as_the_files_of_measured_lines_have_it(in_tmp_path: Path) -> None:
    far_site(in_tmp_path / "dpeer-run")
    error = CliRunner().invoke(group, ["topology", "advise", "--size", "4"]).exception
    assert isinstance(error, ConfigurationError)
    assert str(error).startswith("--body-bytes must be given, for example")
    keep(in_tmp_path / "dpeer-run", 1, {}, 1_000_000)
    asked = ("topology", "advise", "--size", 4)
    assert parsed(*asked) == parsed(*asked, "--body-bytes", "1MB") != parsed(*asked, "--body-bytes", "2MB")
    assert parsed(*asked, "--compress", "int8") == parsed(*asked, "--compress", "int8", "--body-bytes", "1MB")
    assert output(*asked).startswith("4 peers, body 1.0 MB, 5 measured lines")
    other = CliRunner().invoke(group, ["topology", "advise", "--size", "4", "--bandwidth", "1Mbit"]).exception
    assert "--body-bytes must be given" in str(other), "of another federation's model, perhaps"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "--bandwidth must be given"),
        (("--lines", "nowhere"), "--lines nowhere: it has no lines-R.json with a line between ranks below 4"),
        (("--lines", "run", "--bandwidth", "1Mbit"), "--bandwidth and --lines exclude each other"),
        (
            ("--bandwidth", "1Mbit", "--compress", "topk:0.1", "--max-degree", "1"),
            "stays the same, which --compress topk",
        ),
        (("--bandwidth", "1Mbit", "--compress", "int3"), "--compress int3: expected"),
        (("--bandwidth", "1Mbit", "--compress", "powersgd:4"), "--compress powersgd:4: its bytes depend on more"),
    ],
)
def test_what_cannot_be_ranked_is_named(in_tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    far_site(in_tmp_path / "run")
    asked = ["topology", "advise", "--body-bytes", "1MB", "--size", "4", *arguments]
    error = CliRunner().invoke(group, asked).exception
    assert isinstance(error, ConfigurationError)
    assert reason in str(error)


@pytest.mark.parametrize("more", [{"overlap": True}, {"lines": MeasuredLines(300, {0: {1: LineSpeed(1e6, 1e6)}})}])
def test_sizes_that_take_too_long_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"--size 300 with .*: graphs are compared up to 256 peers"):
        rank_graphs(Requirements(300, 1000, 1e6, **more))


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
