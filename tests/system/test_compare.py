"""`dpeer compare`: its runs are those of `dpeer simulate`, also after it was stopped and gone on with."""

import csv
import json
import os
import signal
from pathlib import Path
from statistics import fmean

import pytest

from tests.report.conftest import Page
from tests.thinning import only

pytestmark = pytest.mark.slow

SIZE = 3
SLOW = 200.0
"""Every worker imports torch."""


@pytest.fixture
def command(task, schedule):
    def made(*more: object, rounds: int = 2) -> tuple[object, ...]:
        return ("compare", "--task", task, *schedule, "--size", SIZE, "--rounds", rounds, "--jobs", 2, *more)

    return made


@pytest.fixture
def compared(command, dpeer, run_cells_here):
    """Compare in this process; what was printed."""

    def run(*rows: object) -> str:
        ended = dpeer(*command(*rows))
        assert ended.code == 0, ended.err
        return str(ended.out + ended.err)

    return run


def test_runs_are_those_of_simulate_to_the_bit_and_more_seeds_and_rows_run_only_what_is_missing(
    compared, task, schedule, simulate, results, tmp_path
):
    assert "3/3 " in compared("--algorithms", "local,dfedsmdc:sam=both", "--topology", "ring,full")
    out = tmp_path / "dpeer-compare"
    cells = {path.parent.name: path for path in out.glob("*/summary.json")}
    assert sorted(cells) == [
        "dfedsmdc+sam=both-full-default-seed0", "dfedsmdc+sam=both-ring-default-seed0", "local-default-seed0",
    ]  # fmt: skip
    options = ("--task", task, *schedule, "--size", SIZE, "--rounds", 2, "--seed", 0)
    simulate(*options, "--topology", "full", "--algorithm", "dfedsmdc", "--sam", "both", "--out", "by-hand")
    simulate(*options, "--algorithm", "local", "--out", "alone")
    assert results("by-hand", SIZE) == results("dpeer-compare/dfedsmdc+sam=both-full-default-seed0", SIZE)
    assert results("alone", SIZE) == results("dpeer-compare/local-default-seed0", SIZE)
    summary = json.loads((out / "dfedsmdc+sam=both-full-default-seed0/rank-0/summary.json").read_text())
    assert summary["worth"]["alone"] is None, "the row that trains alone is what the others are compared with"

    with (out / "peers.csv").open(newline="") as file:
        peers = list(csv.DictReader(file))
    assert len(peers) == 2 * 2 * SIZE  # tables, rows
    by_hand = json.loads((tmp_path / "by-hand" / "summary.json").read_text())
    found = [
        float(peer["accuracy"]) for peer in peers if peer["topology"] == "full" and peer["row"].startswith("dfedsmdc")
    ]
    assert found == by_hand["accuracy"]
    assert f"| dfedsmdc:sam=both | {by_hand['accuracy_mean']:.4f} |" in (out / "comparison.md").read_text()

    before = {name: path.stat().st_mtime_ns for name, path in cells.items()}
    # dfedmdc: 4; seed 1 of the others: 3, of which local is one for both graphs
    more = ("--algorithms", "dfedmdc,local,dfedsmdc:sam=both", "--topology", "full,ring", "--seeds", "0-1")
    assert "7/7 " in compared(*more)
    assert {name: cells[name].stat().st_mtime_ns for name in cells} == before


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", only(["Ctrl-C"], ["Ctrl-C", "killed"]))
def test_stopped_in_the_middle_of_runs_it_goes_on_within_them(
    how, command, slow_after, hurry, dpeer, dpeer_command, forked, until, rounds_done, simulate, results, task,
    schedule, tmp_path,
):  # fmt: skip
    rounds = 4
    rows = ("--algorithms", "dfedmdc,dfedsmdc,local", *slow_after(2))
    run = dpeer_command(*command(*rows, "--out", "stopped", rounds=rounds))
    first = ("stopped/dfedmdc-ring-default-seed0", "stopped/dfedsmdc-ring-default-seed0")
    until(lambda: all(rounds_done(name, rank) >= 2 for name in first for rank in range(SIZE)), SLOW)
    if how == "Ctrl-C":
        os.killpg(run.pid, signal.SIGINT)  # a terminal's goes to the whole group
    else:
        run.signal(signal.SIGKILL)
    code = run.wait(SLOW)
    until(lambda: not run.offspring() and not forked())
    assert "Traceback" not in run.output
    assert (code == 0) == (how == "Ctrl-C")
    if how == "Ctrl-C":
        assert run.output.rstrip().endswith("dpeer: stopped; the same command goes on")
    assert not (tmp_path / "stopped" / "comparison.md").exists()
    begun = {path.parent.parent.name for path in (tmp_path / "stopped").glob("*/rank-0/metrics.jsonl")}
    assert begun == {Path(name).name for name in first}, "what waited has not been begun"
    earlier = {name: (tmp_path / name / "rank-0" / "metrics.jsonl").read_text() for name in first}
    assert all(2 <= text.count("\n") < rounds for text in earlier.values()), earlier

    hurry()
    resumed = dpeer(*command(*rows, "--out", "stopped", rounds=rounds))
    assert "3 of 3 runs to make" in resumed.out + resumed.err
    options = ("--task", task, *schedule, "--size", SIZE, "--rounds", rounds)
    for name, text in earlier.items():
        # Gone on with, not begun anew: even the times are those of before.
        assert (tmp_path / name / "rank-0" / "metrics.jsonl").read_text().startswith(text)
        algorithm = Path(name).name.partition("-")[0]
        simulate(*options, "--algorithm", algorithm, "--out", algorithm)
        assert results(name, SIZE) == results(algorithm, SIZE)


def test_training_accuracy_goes_from_the_peers_to_summary_csv_and_report(compared, dpeer, tmp_path):
    compared("--algorithms", "local,dfedmdc", "--training-accuracy")
    cell = tmp_path / "dpeer-compare" / "dfedmdc-ring-default-seed0"
    lines = [
        [json.loads(line) for line in (cell / f"rank-{rank}" / "metrics.jsonl").read_text().splitlines()]
        for rank in range(SIZE)
    ]
    last = [own[-1] for own in lines]
    assert all(line["generalization_gap"] == line["training_accuracy"] - line["accuracy"] for line in last)
    peers = [json.loads((cell / f"rank-{rank}" / "summary.json").read_text()) for rank in range(SIZE)]
    summary = json.loads((cell / "summary.json").read_text())
    kept = [peer["training_accuracy"] for peer in peers]
    assert summary["training_accuracy_mean"] == pytest.approx(fmean(kept))
    gaps = [peer["training_accuracy"] - peer["accuracy"] for peer in peers]
    assert summary["generalization_gap_mean"] == pytest.approx(fmean(gaps))

    with (tmp_path / "dpeer-compare" / "peers.csv").open(newline="") as file:
        listed = [line for line in csv.DictReader(file) if line["row"] == "dfedmdc"]
    assert [float(line["training_accuracy_mixed"]) for line in listed] == [line["training_accuracy"] for line in last]
    assert [float(line["training_accuracy"]) for line in listed] == kept

    training, test = (fmean(line[key] for line in last) for key in ("training_accuracy", "accuracy"))
    assert dpeer("report", "dpeer-compare").code == 0
    heading, *rows = Page(tmp_path / "dpeer-report" / "index.html").tables[0]
    found = [dict(zip(heading, line, strict=True)) for line in rows]
    shown = [(line["training accuracy after mixing"], line["generalization gap"]) for line in found]
    assert (f"{training:.4f}", f"{training - test:+.4f}") in shown
    assert (tmp_path / "dpeer-report" / "accuracy-by-peer.png").exists()


def test_a_run_that_fails_ends_the_comparison_with_its_line_and_code_and_the_rest_stops(command, dpeer):
    ended = dpeer(*command("--algorithms", "local,dfedmdc", "--task-option", "sise=3"))
    assert ended.code == 2
    assert "Traceback" not in ended.err
    (line,) = [line for line in ended.err.splitlines() if line.startswith("dpeer: ")]
    assert line.startswith(("dpeer: local-default-seed0: ", "dpeer: dfedmdc-ring-default-seed0: "))
    assert "sise" in line
    # Nothing was run there: with the option put right, the same folder will do.
    assert dpeer(*command("--algorithms", "local,dfedmdc")).code == 0


@pytest.mark.usefixtures("run_cells_here")
def test_hyperparameters_are_chosen_on_validation_data_of_other_seeds(dpeer, tmp_path):
    common = ("--algorithms", "local,dfedmdc", "--size", SIZE, "--rounds", 1, "--local-steps", 5)
    printed = dpeer("compare", *common, "--grid", "body-lr+head-lr=0.0001,0.1", "--validation", 0.3).out
    assert "dfedmdc: body-lr 0.1, head-lr 0.1 (accuracy" in printed
    assert "local: body-lr 0.1 (accuracy" in printed
    out = tmp_path / "dpeer-compare"
    tried = [json.loads(path.read_text()) for path in out.glob("tune/*/rank-0/summary.json")]
    assert len(tried) == 4
    for summary in tried:
        assert (summary["seed"], summary["settings"]["evaluate_on"]) == (100, "validation")
        assert summary["settings"]["validation"] == 0.3
    final = [json.loads(path.read_text()) for path in out.glob("*/rank-0/summary.json")]
    assert [summary["settings"]["body_lr"] for summary in final] == [0.1, 0.1]
    assert all(summary["settings"]["evaluate_on"] == "test" for summary in final)
    assert all(summary["settings"]["validation"] == 0 for summary in final)
