"""Tables and CSV, held against figures computed from the same numbers by numpy and scipy."""

import csv
import io
import json
from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from dpeer.cli.compare import show_table
from dpeer.experiments.cells import Condition
from dpeer.experiments.csv_output import csv_rows, csv_text
from dpeer.experiments.experiment import load
from dpeer.experiments.json_output import as_json
from dpeer.experiments.outcomes import Result
from dpeer.experiments.row_statistics import figures, others
from dpeer.experiments.tables import Table, accuracy_table, cost_table, metric_table, target_table

Made = Callable[..., Result]
RNG = np.random.default_rng(7)
SEEDS, PEERS, ROUNDS = 4, 3, 12


@pytest.fixture
def values() -> dict[str, Any]:
    return {name: RNG.uniform(0.3, 0.9, (SEEDS, PEERS, ROUNDS)) for name in ("local", "dfedmdc", "dfedsmdc:rho=0.1")}


@pytest.fixture
def rows(values: dict[str, Any], result: Made) -> dict[str, list[Result]]:
    return {name: [result(one.tolist()) for one in found] for name, found in values.items()}


@pytest.mark.parametrize(("last", "title"), [(1, "last round"), (10, "last 10")])
def test_every_figure_is_that_of_numpy_and_scipy_and_of_the_same_rounds(
    last: int, title: str, values: dict[str, Any], rows: dict[str, list[Result]]
) -> None:
    name = "dfedsmdc:rho=0.1"
    found = figures(name, rows, "accuracy_mixed", "local", "dfedmdc", last)
    late = {row: value[:, :, -last:].mean(axis=2) for row, value in values.items()}
    assert found.mean == pytest.approx(late[name].mean())
    assert found.worst == pytest.approx(late[name].min(axis=1).mean())
    assert found.below == pytest.approx((late[name] < late["local"]).mean())
    low, high = stats.ttest_rel(late[name].mean(axis=1), late["dfedmdc"].mean(axis=1)).confidence_interval()
    mean, half = found.difference
    assert (mean - half, mean + half) == pytest.approx((low, high))
    table = accuracy_table("ring", "accuracy_mixed", rows, "local", "dfedmdc", last)
    assert table.columns == ["", title, "worst peer", "below local", f"{title} - dfedmdc"]
    line = next(line for line in table.rows if line[0] == name)
    assert line[1:] == [
        f"{found.mean:.4f}", f"{found.worst:.4f}", f"{found.below:.0%}", f"{mean:+.4f} ± {half:.4f}",
    ]  # fmt: skip
    assert [line[3] for line in table.rows] == ["-", *(line[3] for line in table.rows[1:])]
    assert table.rows[1][4] == "-"
    assert table.remarks == ["always answering each peer's most frequent training class: 0.5000"]


def test_what_is_better_in_the_last_round_alone_is_better_there_and_worse_in_the_mean(result: Made) -> None:
    """Once `below local` was that of the last ten rounds beside an accuracy of the last one."""
    rows = {
        "local": [result([[0.6, 0.6, 0.6]] * 3)],
        "dfedmdc": [result([[0.1, 0.1, 0.9], [0.1, 0.1, 0.8], [0.1, 0.1, 0.5]])],
    }
    last, all_three = (
        accuracy_table("ring", "accuracy_mixed", rows, "local", "local", rounds).rows[1] for rounds in (1, 10)
    )
    assert last == ["dfedmdc", "0.7333", "0.5000", "33%", "+0.1333"]
    assert all_three == ["dfedmdc", "0.3111", "0.2333", "100%", "-0.2889"]


def test_columns_that_would_say_nothing_are_left_out(rows: dict[str, list[Result]]) -> None:
    one = {"dfedmdc": rows["dfedmdc"]}
    assert accuracy_table("ring", "accuracy_mixed", one, None, "dfedmdc").columns == ["", "last round", "worst peer"]
    one_seed = {name: found[:1] for name, found in rows.items()}
    table = accuracy_table("ring", "accuracy_mixed", one_seed, "local", "dfedmdc")
    assert "±" not in "".join(cell for row in table.rows for cell in row)


@pytest.mark.parametrize(
    ("evaluate_every", "last", "named", "title"),
    [
        (1, 1, "last round", "last round"),
        (12, 10, "last round", "last round"),
        (50, 10, "last round", "last round"),
        (1, 10, "last 10", "mean of the last 10 rounds"),
        (4, 10, "last 10", "mean of the 3 evaluated ones of the last 10 rounds"),
        (1, 50, "last 12", "mean of the last 12 rounds"),
    ],
)
def test_the_title_names_the_rounds(
    evaluate_every: int, last: int, named: str, title: str, values: dict[str, Any], result: Made
) -> None:
    made = {
        name: [result(one.tolist(), evaluate_every=evaluate_every) for one in found] for name, found in values.items()
    }
    table = accuracy_table("ring", "accuracy_mixed", made, "local", "dfedmdc", last)
    assert table.title == f"ring: accuracy after mixing, {title}"
    assert (table.columns[1], table.columns[-1]) == (named, f"{named} - dfedmdc")
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_equal_to_local_is_not_below_it_and_without_an_accuracy_is(result: Made) -> None:
    rows = {"local": [result([[0.5]] * 4)], "dfedmdc": [result([[0.5], [0.4], [0.6], [None]])]}
    assert figures("dfedmdc", rows, "accuracy_mixed", "local", "dfedmdc").below == 0.5
    table = accuracy_table("ring", "accuracy_mixed", rows, "local", "local")
    assert table.rows[1] == ["dfedmdc", "-", "-", "50%", "-"]


def test_the_json_has_the_figures_of_the_tables(rows: dict[str, list[Result]], result: Made) -> None:
    plan = {"algorithms": [*rows], "seeds": "0-3", "last": 10, "target": 0.5}
    experiment = load(None, {"size": PEERS, "rounds": ROUNDS}, plan, small=False)
    assert (experiment.baseline, experiment.reference) == ("local", "local")
    printed = json.loads(json.dumps(as_json(experiment, [(Condition({"topology": "ring"}), rows)]), allow_nan=False))
    assert (printed["seeds"], printed["last"], printed["reference"], printed["target"]) == (
        [0, 1, 2, 3],
        10,
        "local",
        0.5,
    )
    (table,) = printed["tables"]
    assert table["condition"] == {"topology": "ring"}
    assert table["target"] == 0.5
    assert table["majority"] == 0.5
    for name, row in table["rows"].items():
        for measure in ("accuracy_mixed", "accuracy_trained"):
            found = figures(name, rows, measure, "local", "local", 10)
            figures_of = row[measure]
            assert (figures_of["mean"], figures_of["worst_peer"]) == (found.mean, found.worst)
            assert figures_of["below_baseline"] == found.below
            differs = (figures_of["difference"], figures_of["difference_half"])
            assert differs == ((None, None) if name == "local" else found.difference)
        reached = [cost for r in rows[name] if (cost := r.reached("accuracy_mixed", 0.5)) is not None]
        assert row["accuracy_mixed"]["to_target"]["seeds"] == len(reached)
        assert row["accuracy_mixed"]["to_target"]["rounds"] == (fmean(c.rounds for c in reached) if reached else None)
        assert row["bytes_sent_a_peer"] == 100 * ROUNDS * fmean(range(1, PEERS + 1))
        assert row["samples"] == 60 * PEERS * ROUNDS
    own = as_json(experiment, [(Condition({}, 0.9), rows)])["tables"][0]
    assert own["target"] == 0.9
    reached = [cost for r in rows["local"] if (cost := r.reached("accuracy_mixed", 0.9)) is not None]
    assert own["rows"]["local"]["accuracy_mixed"]["to_target"]["seeds"] == len(reached)
    lost = {"local": [result([[0.5]] * 2)], "dfedmdc": [result([[None]] * 2, lost=lambda rank, number: True)]}
    two = load(None, {"size": 2, "rounds": 1}, {"algorithms": [*lost]}, small=False)
    (table,) = json.loads(json.dumps(as_json(two, [(Condition({}), lost)]), allow_nan=False))["tables"]
    assert table["rows"]["dfedmdc"]["accuracy_mixed"]["mean"] is None
    assert table["rows"]["dfedmdc"]["diverged_seeds"] == 1


def test_what_is_kept_has_a_table_where_it_is_another_model(result: Made) -> None:
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
    experiment = load(None, {"size": 2, "rounds": 5}, {"algorithms": [*rows], "target": 0.5}, small=False)
    (message,) = as_json(experiment, [(Condition({}), rows)])["tables"]
    assert message["rows"]["dfedavgm:finish=all:1"]["accuracy"]["mean"] == 0.625
    assert "to_target" not in message["rows"]["local"]["accuracy"], "a target is reached in rounds"
    lines = csv_rows(rows, {}, [0], 2)
    assert [line["accuracy"] for line in lines] == [0.6, 0.6, 0.75, 0.5, 0.4, 0.4]


def test_what_diverged_is_said(result: Made) -> None:
    good, bad = result([[0.5] * 2]), result([[0.5] * 2], lost=lambda rank, number: True)
    table = accuracy_table(
        "ring", "accuracy_mixed", {"local": [good, good], "dfedmdc": [good, bad]}, "local", "dfedmdc"
    )
    assert table.remarks[-1] == "training diverged in a peer (loss not finite): dfedmdc (1 of 2 seeds)"


def test_costs_are_means_over_the_seeds_that_reached_the_target(result: Made) -> None:
    up, down = result([[0.9] * 8] * 2), result([[0.1] * 8] * 2)
    late = result([[0.0, 0.0, *[0.9] * 6]] * 2)
    table = target_table("ring", "accuracy_mixed", {"a": [up, late, down], "b": [down] * 3}, 0.85)
    assert table.rows == [
        ["a", "2 of 3", "6.0", "720", "1.2 kB"],
        ["b", "0 of 3", "-", "-", "-"],
    ]
    assert cost_table("ring", {"a": [up]}).rows == [["a", "1.2 kB", "960"]]


def test_of_private_runs_the_largest_epsilon_is_shown(result: Made) -> None:
    first, second = (result([[0.9] * 8] * 2, spent=spent) for spent in ([1.25, 3.5], [2.0, 2.5]))
    unbounded, plain = result([[0.9] * 8] * 2, spent=[1.0, None]), result([[0.9] * 8] * 2)
    rows = {"dfedsmdc": [first, second], "fedavg": [first, unbounded], "local": [plain, plain]}
    table = cost_table("ring", rows)
    assert table.columns[-1] == "epsilon"
    assert [row[-1] for row in table.rows] == ["3.5", "unbounded", "-"]
    (remark,) = table.remarks
    assert remark.startswith("epsilon: of one run")
    assert not cost_table("ring", {"local": [plain, plain]}).remarks
    experiment = load(None, {"size": 2, "rounds": 8}, {"algorithms": [*rows]}, small=False)
    (message,) = as_json(experiment, [(Condition({}), rows)])["tables"]
    assert [message["rows"][row].get("epsilon", "none") for row in rows] == [3.5, None, "none"]


def test_samples_that_nobody_counted_are_a_dash(result: Made) -> None:
    known, older = result([[0.9] * 8] * 2), result([[0.9] * 8] * 2, samples=lambda rank, number: None)
    assert cost_table("ring", {"a": [known, older]}).rows == [["a", "1.2 kB", "-"]]
    (row,) = target_table("ring", "accuracy_mixed", {"a": [older]}, 0.85).rows
    assert row == ["a", "1 of 1", "5.0", "-", "1.0 kB"]


def test_csv_has_a_line_a_peer_and_reads_back(values: dict[str, Any], rows: dict[str, list[Result]]) -> None:
    lines = csv_rows(rows, {"topology": "ring", "partition": None}, range(SEEDS))
    read = list(csv.DictReader(io.StringIO(csv_text(lines), newline="")))
    assert len(read) == 3 * SEEDS * PEERS
    for entry in read:
        own = values[entry["row"]][int(entry["seed"]), int(entry["rank"])]
        assert float(entry["accuracy"]) == own[-1]
        assert float(entry["accuracy_mixed_last_10"]) == pytest.approx(own[-10:].mean())
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


def test_other_metrics_are_means_over_rounds_peers_and_seeds(result: Made) -> None:
    two = [result([[0.2, 0.4], [0.6, 0.8]], metrics=("accuracy", "auroc", "my_own")) for _ in range(2)]
    rows = {"local": two, "dfedmdc": [result([[0.1, 0.3], [0.5, None]], metrics=("accuracy", "auroc"))] * 2}
    assert others(two) == pytest.approx({"auroc": 0.6, "my_own": 0.6})
    assert others(two, 2) == pytest.approx({"auroc": 0.5, "my_own": 0.5})
    table = metric_table("ring", rows)
    assert table is not None
    assert table.columns == ["", "AUROC", "my own"]
    assert table.rows == [["local", "0.6000", "0.6000"], ["dfedmdc", "-", "-"]]
    assert table.title == "ring: other metrics after mixing, last round"
    assert metric_table("ring", {"local": [result([[0.5]])]}) is None


def test_of_many_other_metrics_five_are_shown(result: Made) -> None:
    names = [f"m{number}" for number in range(7)]
    table = metric_table("ring", {"local": [result([[0.5]], metrics=("accuracy", *names))]})
    assert table is not None
    assert table.columns == ["", *names[:5]]
    assert table.remarks == ["more in --json: m5, m6"]
