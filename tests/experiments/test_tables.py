"""Tables, CSV and JSON, held against figures that numpy and scipy compute from the same numbers."""

import csv
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpeer.experiments.cells import Condition
from dpeer.experiments.experiment import load
from dpeer.experiments.outcomes import Result, figures, interval
from dpeer.experiments.tables import accuracy_table, as_json, cost_table, csv_rows, csv_text

Made = Callable[..., Result]
RNG = np.random.default_rng(7)
SEEDS, PEERS, ROUNDS = 4, 3, 12


@pytest.fixture
def values() -> dict[str, Any]:
    return {name: RNG.uniform(0.3, 0.9, (SEEDS, PEERS, ROUNDS)) for name in ("local", "dfedmdc", "dfedsmdc:rho=0.1")}


@pytest.fixture
def rows(values: dict[str, Any], result: Made) -> dict[str, list[Result]]:
    return {name: [result(one.tolist()) for one in found] for name, found in values.items()}


def printed(rows: Mapping[str, list[Result]], settings: dict[str, Any], **plan: Any) -> dict[str, Any]:
    """The JSON of a comparison with one table."""
    asked = load(None, settings, {"algorithms": [*rows], **plan})
    found = as_json(asked, [(Condition({"topology": "ring"}), rows)])
    whole: dict[str, Any] = json.loads(json.dumps(found, allow_nan=False))
    (whole["table"],) = whole["tables"]
    return whole


@pytest.mark.parametrize("seeds", [2, 5])
def test_the_interval_of_paired_differences_is_scipys(seeds: int) -> None:
    here, there = RNG.normal(0.8, 0.1, seeds), RNG.normal(0.7, 0.1, seeds)
    mean, half = interval(list(here - there))
    assert half is not None
    low, high = stats.ttest_rel(here, there).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert interval([0.25]) == (0.25, None)
    assert interval([0.25, 0.25, 0.25]) == (0.25, 0.0)
    assert interval([0.5, math.nan, 0.5])[1] is None


def test_every_figure_is_that_of_numpy_and_scipy_and_of_the_last_round(
    values: dict[str, Any], rows: dict[str, list[Result]]
) -> None:
    name = "dfedsmdc:rho=0.1"
    found = figures(name, rows, "accuracy_mixed", "local", "dfedmdc")
    late = {row: value[:, :, -1] for row, value in values.items()}
    assert found.mean == pytest.approx(late[name].mean())
    assert found.worst_peer == pytest.approx(late[name].min(axis=1).mean())
    assert found.below_baseline == pytest.approx((late[name] < late["local"]).mean())
    before = [result.accuracies("accuracy_trained") for result in rows[name]]
    assert np.array(before) == pytest.approx(late[name] / 2)
    low, high = stats.ttest_rel(late[name].mean(axis=1), late["dfedmdc"].mean(axis=1)).confidence_interval()
    mean, half = found.difference, found.difference_half
    assert mean is not None
    assert half is not None
    assert (mean - half, mean + half) == pytest.approx((low, high))
    table = accuracy_table("ring", "accuracy_mixed", rows, "local", "dfedmdc")
    assert table.title == "ring: accuracy after mixing, last round"
    assert table.columns == ["", "last round", "worst peer", "below local", "last round - dfedmdc"]
    line = next(line for line in table.rows if line[0] == name)
    assert line[1:] == [
        f"{found.mean:.4f}", f"{found.worst_peer:.4f}", f"{found.below_baseline:.0%}", f"{mean:+.4f} ± {half:.4f}",
    ]  # fmt: skip
    assert (table.rows[0][3], table.rows[1][4]) == ("-", "-")
    assert table.remarks == ["always answering each peer's most frequent training class: 0.5000"]


def test_equal_to_local_is_not_below_it_and_without_an_accuracy_is(result: Made) -> None:
    rows = {"local": [result([[0.5]] * 4)], "dfedmdc": [result([[0.5], [0.4], [0.6], [None]])]}
    assert figures("dfedmdc", rows, "accuracy_mixed", "local", "dfedmdc").below_baseline == 0.5
    table = accuracy_table("ring", "accuracy_mixed", rows, "local", "local")
    assert table.rows[1] == ["dfedmdc", "-", "-", "50%", "-"]


def test_the_json_has_the_figures_of_the_tables(rows: dict[str, list[Result]], result: Made) -> None:
    found = printed(rows, {"size": PEERS, "rounds": ROUNDS}, seeds="0-3")
    assert [found[key] for key in ("seeds", "rounds", "reference")] == [[0, 1, 2, 3], ROUNDS, "local"]
    table = found["table"]
    assert (table["condition"], table["majority"]) == ({"topology": "ring"}, 0.5)
    for name, row in table["rows"].items():
        for measure in ("accuracy_mixed", "accuracy_trained"):
            assert row[measure] == asdict(figures(name, rows, measure, "local", "local"))
        assert row["bytes_sent_a_peer"] == 100 * ROUNDS * fmean(range(1, PEERS + 1))
        assert row["samples"] == 60 * PEERS * ROUNDS
    lost = {"local": [result([[0.5]] * 2)], "dfedmdc": [result([[None]] * 2, lambda rank, n: {"diverged": True})]}
    row = printed(lost, {"size": 2, "rounds": 1})["table"]["rows"]["dfedmdc"]
    assert (row["accuracy_mixed"]["mean"], row["diverged_seeds"]) == (None, 1)


def test_a_kept_model_has_a_table_where_it_is_another_model(result: Made) -> None:
    rows = {
        "local": [result([[0.5, 0.6]] * 2)],
        "dfedavgm:finish=all:1": [result([[0.5, 0.4], [0.3, 0.4]], kept=[0.75, 0.5])],
        "ditto:finish=all:1": [result([[0.5, 0.4]] * 2, kept=[0.4, 0.4])],
    }
    assert [found[0].keeps_another for found in rows.values()] == [False, True, False]
    table = accuracy_table("ring", "accuracy", rows, "local", "local")
    assert table.title == "ring: accuracy of the kept model"
    assert table.columns == ["", "kept", "worst peer", "below local", "kept - local"]
    assert "finished at home: dfedavgm:finish=all:1, ditto:finish=all:1; the others are not" in table.remarks
    assert [row[1:4] for row in table.rows] == [
        ["0.6000", "0.6000", "-"], ["0.6250", "0.5000", "50%"], ["0.4000", "0.4000", "100%"],
    ]  # fmt: skip
    row = printed(rows, {"size": 2, "rounds": 5})["table"]["rows"]["dfedavgm:finish=all:1"]
    assert row["accuracy"]["mean"] == 0.625
    assert [line["accuracy"] for line in csv_rows(rows, {}, [0])] == [0.6, 0.6, 0.75, 0.5, 0.4, 0.4]


def test_rows_that_compute_the_same_are_named(result: Made) -> None:
    """A loss that differs in its last bit tells them apart, though all accuracies are equal."""

    def loss(value: float) -> Callable[[int, int], dict[str, Any]]:
        return lambda rank, number: {"train_loss": value}

    one, other = (result([[0.5] * 2] * 3, loss(value)) for value in (0.25, math.nextafter(0.25, 1)))
    rows = {"local": [other, one], "dfedavgm": [one, one], "fedavg": [one, one]}
    table = accuracy_table("full", "accuracy_mixed", rows, "local", "local")
    line = "equal in each round of each peer, for what sets them apart changes nothing with these settings"
    assert table.remarks[-1] == f"dfedavgm, fedavg: {line}"
    before = accuracy_table("full", "accuracy_trained", rows, "local", "local")
    assert not any(line in one for one in before.remarks), "once is enough"


def test_rows_that_diverged_are_named(result: Made) -> None:
    good, bad = result([[0.5] * 2]), result([[0.5] * 2], lambda rank, number: {"diverged": True})
    rows = {"local": [good, good], "dfedmdc": [good, bad]}
    table = accuracy_table("ring", "accuracy_mixed", rows, "local", "dfedmdc")
    assert table.remarks[-1] == "training diverged in a peer (loss not finite): dfedmdc (1 of 2 seeds)"


def test_of_private_runs_the_largest_epsilon_is_shown(result: Made) -> None:
    first, second = (result([[0.9] * 8] * 2, spent=spent) for spent in ([1.25, 3.5], [2.0, 2.5]))
    unbounded, plain = result([[0.9] * 8] * 2, spent=[1.0, None]), result([[0.9] * 8] * 2)
    rows = {"dfedsmdc": [first, second], "fedavg": [first, unbounded], "local": [plain, plain]}
    table = cost_table("ring", rows)
    assert table.columns[-1] == "epsilon"
    assert [row[-1] for row in table.rows] == ["3.5", "unbounded", "-"]
    assert [remark[:21] for remark in table.remarks] == ["epsilon: of one run, "]
    assert not cost_table("ring", {"local": [plain, plain]}).remarks
    found = printed(rows, {"size": 2, "rounds": 8})["table"]["rows"]
    assert [found[row].get("epsilon", "none") for row in rows] == [3.5, None, "none"]


def test_csv_has_a_line_a_peer_and_reads_back(values: dict[str, Any], rows: dict[str, list[Result]]) -> None:
    lines = csv_rows(rows, {"topology": "ring", "partition": None}, range(SEEDS))
    read = list(csv.DictReader(io.StringIO(csv_text(lines), newline="")))
    assert len(read) == 3 * SEEDS * PEERS
    for entry in read:
        own = values[entry["row"]][int(entry["seed"]), int(entry["rank"])]
        assert float(entry["accuracy"]) == own[-1]
        assert float(entry["accuracy_mixed"]) == own[-1]
        assert (entry["algorithm"], entry["test_loss"], entry["epsilon"]) == ("dfedmdc", "0.1", "")
        assert float(entry["accuracy_trained"]) == own[-1] / 2
        assert (entry["topology"], entry["partition"]) == ("ring", "")
        assert int(entry["bytes_sent"]) == 100 * (int(entry["rank"]) + 1) * ROUNDS
