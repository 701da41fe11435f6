"""Tables and CSV, held against figures computed from the same numbers by numpy and scipy."""

import csv
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from dpeer.cli.comparing import show_table
from dpeer.experiments.listing import csv_rows, csv_text
from dpeer.experiments.outcomes import Result
from dpeer.experiments.tables import Table, accuracy_table, cost_table, summarise, target_table

Made = Callable[..., Result]
RNG = np.random.default_rng(7)
SEEDS, PEERS, ROUNDS = 4, 3, 12


@pytest.fixture
def values() -> dict[str, Any]:
    return {name: RNG.uniform(0.3, 0.9, (SEEDS, PEERS, ROUNDS)) for name in ("local", "dfedmdc", "dfedsmdc:rho=0.1")}


@pytest.fixture
def rows(values: dict[str, Any], result: Made) -> dict[str, list[Result]]:
    return {name: [result(one.tolist()) for one in found] for name, found in values.items()}


def test_figures_are_those_of_numpy_and_scipy(values: dict[str, Any], rows: dict[str, list[Result]]) -> None:
    name = "dfedsmdc:rho=0.1"
    found = summarise(rows[name], rows, "accuracy", "local", "dfedmdc")
    late = {row: value[:, :, -10:].mean(axis=2) for row, value in values.items()}
    assert found["last"] == pytest.approx(values[name][:, :, -1].mean())
    assert found["late"] == pytest.approx(late[name].mean())
    assert found["worst"] == pytest.approx(late[name].min(axis=1).mean())
    assert found["below"] == pytest.approx((late[name] < late["local"]).mean())
    low, high = stats.ttest_rel(late[name].mean(axis=1), late["dfedmdc"].mean(axis=1)).confidence_interval()
    mean, half = found["difference"]
    assert (mean - half, mean + half) == pytest.approx((low, high))
    table = accuracy_table("ring", "accuracy", rows, "local", "dfedmdc")
    assert table.columns == ["", "last round", "last 10", "worst peer", "below local", "last 10 - dfedmdc"]
    line = next(line for line in table.rows if line[0] == name)
    assert line[1:4] == [f"{found[key]:.4f}" for key in ("last", "late", "worst")]
    assert line[4:] == [f"{found['below']:.0%}", f"{mean:+.4f} ± {half:.4f}"]
    assert [line[4] for line in table.rows] == ["-", *(line[4] for line in table.rows[1:])]
    assert table.rows[1][5] == "-"
    assert table.remarks == ["always answering each peer's most frequent training class: 0.5000"]


def test_columns_that_would_say_nothing_are_left_out(rows: dict[str, list[Result]]) -> None:
    one = {"dfedmdc": rows["dfedmdc"]}
    assert accuracy_table("ring", "accuracy", one, None, "dfedmdc").columns == [
        "", "last round", "last 10", "worst peer",
    ]  # fmt: skip
    one_seed = {name: found[:1] for name, found in rows.items()}
    table = accuracy_table("ring", "accuracy", one_seed, "local", "dfedmdc")
    assert "±" not in "".join(cell for row in table.rows for cell in row)


def test_short_runs_do_not_claim_ten_rounds(result: Made) -> None:
    rows = {"local": [result([[0.5] * 3])], "dfedmdc": [result([[0.5] * 3])]}
    assert "last 3" in accuracy_table("ring", "accuracy", rows, "local", "dfedmdc").columns


@pytest.mark.parametrize("evaluate_every", [12, 50, 6, 1])
def test_of_one_evaluated_round_there_is_no_mean_of_the_last_ten(
    evaluate_every: int, values: dict[str, Any], result: Made
) -> None:
    made = {
        name: [result(one.tolist(), evaluate_every=evaluate_every) for one in found] for name, found in values.items()
    }
    table = accuracy_table("ring", "accuracy", made, "local", "dfedmdc")
    assert ("last 10" in table.columns) == (evaluate_every < 12)
    name = "last 10 - dfedmdc" if evaluate_every < 12 else "last round - dfedmdc"
    assert table.columns[-1] == name
    figures = summarise(made["local"], made, "accuracy", "local", "dfedmdc")
    assert dict(zip(table.columns, table.rows[0], strict=True))["worst peer"] == f"{figures['worst']:.4f}"
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_equal_to_local_is_not_below_it_and_without_an_accuracy_is(result: Made) -> None:
    rows = {"local": [result([[0.5]] * 4)], "dfedmdc": [result([[0.5], [0.4], [0.6], [None]])]}
    found = summarise(rows["dfedmdc"], rows, "accuracy", "local", "dfedmdc")
    assert found["below"] == 0.5
    table = accuracy_table("ring", "accuracy", rows, "local", "local")
    assert table.rows[1] == ["dfedmdc", "-", "-", "50%", "-"]


def test_what_diverged_is_said(result: Made) -> None:
    good, bad = result([[0.5] * 2]), result([[0.5] * 2], lost=lambda rank, number: True)
    table = accuracy_table("ring", "accuracy", {"local": [good, good], "dfedmdc": [good, bad]}, "local", "dfedmdc")
    assert table.remarks[-1] == "training diverged in a peer (loss not finite): dfedmdc (1 of 2 seeds)"


def test_costs_are_means_over_the_seeds_that_reached_the_target(result: Made) -> None:
    up, down = result([[0.9] * 8] * 2), result([[0.1] * 8] * 2)
    late = result([[0.0, 0.0, *[0.9] * 6]] * 2)
    table = target_table("ring", "accuracy", {"a": [up, late, down], "b": [down] * 3}, 0.85)
    assert table.rows == [
        ["a", "2 of 3", "6.0", "720", "1.2 kB"],
        ["b", "0 of 3", "-", "-", "-"],
    ]
    assert cost_table("ring", {"a": [up]}).rows == [["a", "1.2 kB", "960"]]


def test_samples_that_nobody_counted_are_a_dash(result: Made) -> None:
    known, older = result([[0.9] * 8] * 2), result([[0.9] * 8] * 2, samples=lambda rank, number: None)
    assert cost_table("ring", {"a": [known, older]}).rows == [["a", "1.2 kB", "-"]]
    (row,) = target_table("ring", "accuracy", {"a": [older]}, 0.85).rows
    assert row == ["a", "1 of 1", "5.0", "-", "1.0 kB"]


def test_csv_has_a_line_a_peer_and_reads_back(values: dict[str, Any], rows: dict[str, list[Result]]) -> None:
    lines = csv_rows(rows, {"topology": "ring", "partition": None}, range(SEEDS))
    read = list(csv.DictReader(io.StringIO(csv_text(lines), newline="")))
    assert len(read) == 3 * SEEDS * PEERS
    for entry in read:
        own = values[entry["row"]][int(entry["seed"]), int(entry["rank"])]
        assert float(entry["accuracy"]) == own[-1]
        assert float(entry["accuracy_last_10"]) == pytest.approx(own[-10:].mean())
        assert float(entry["accuracy_trained"]) == own[-1] / 2
        assert (entry["topology"], entry["partition"]) == ("ring", "")
        assert int(entry["bytes_sent"]) == 100 * (int(entry["rank"]) + 1) * ROUNDS


def test_markdown_is_a_table_whatever_rows_are_called() -> None:
    text = Table("t", ["", "a|b"], [["x|y", "1"]], ["so"]).markdown()
    assert text.splitlines() == ["**t**", "", "|  | a\\|b |", "| --- | ---: |", "| x\\|y | 1 |", "", "so"]


@pytest.mark.parametrize("width", [80, 120])
def test_numbers_are_whole_at_any_width(width: int, rows: dict[str, list[Result]]) -> None:
    long = "fedavg:topology=full:weights=uniform:momentum=0.0"
    rows[long] = rows["dfedmdc"]
    table = accuracy_table("exponential, dirichlet-equal:0.3", "accuracy_trained", rows, "local", "dfedsmdc:rho=0.1")
    console = Console(file=io.StringIO(), width=width)
    show_table(table, console)
    shown = console.file.getvalue()
    for line in table.rows:
        for cell in line[1:]:
            assert cell in shown
    assert all(part in shown for part in long.split(":"))
    assert max(len(line) for line in shown.splitlines()[1:-2]) <= width
