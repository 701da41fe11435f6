"""`dpeer compare` with real processes: stopped and gone on with, its runs are those of `dpeer simulate`."""

import csv
import hashlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from tests.report.conftest import Page
from tests.thinning import only

pytestmark = pytest.mark.slow

SIZE = 3
SLOW = 200.0
"""Every worker imports torch."""


@pytest.fixture
def command(task: str, schedule: tuple[str, ...]) -> Callable[..., tuple[object, ...]]:
    def made(*more: object, rounds: int = 2, jobs: int = 2) -> tuple[object, ...]:
        return (
            "compare", "--task", task, *schedule, "--size", SIZE, "--rounds", rounds, "--jobs", jobs, *more,
        )  # fmt: skip

    return made


def models(folder: Path) -> list[str]:
    return [
        hashlib.sha256((folder / f"rank-{rank}" / "model.safetensors").read_bytes()).hexdigest() for rank in range(SIZE)
    ]


def tables(folder: Path) -> tuple[str, str]:
    return (folder / "comparison.md").read_text(), (folder / "peers.csv").read_text()


def test_runs_are_those_of_simulate_to_the_bit_and_more_seeds_and_rows_run_only_what_is_missing(
    command: Callable[..., Any], task: str, schedule: tuple[str, ...], dpeer: Callable[..., Any],
    simulate: Callable[..., None], tmp_path: Path,
) -> None:  # fmt: skip
    printed = dpeer(*command("--algorithms", "local,dfedsmdc:sam=both", "--topology", "ring,full")).succeed(SLOW)
    out = tmp_path / "dpeer-compare"
    cells = {path.parent.name: path for path in out.glob("*/summary.json")}
    assert sorted(cells) == [
        "dfedsmdc+sam=both-full-default-seed0", "dfedsmdc+sam=both-ring-default-seed0", "local-default-seed0",
    ]  # fmt: skip
    assert "3/3 " in printed
    options = ("--task", task, *schedule, "--size", SIZE, "--rounds", 2, "--seed", 0)
    simulate(*options, "--topology", "full", "--algorithm", "dfedsmdc", "--sam", "both", "--out", "by-hand")
    simulate(*options, "--algorithm", "local", "--out", "alone")
    assert models(tmp_path / "by-hand") == models(out / "dfedsmdc+sam=both-full-default-seed0")
    assert models(tmp_path / "alone") == models(out / "local-default-seed0")

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
    more = command("--algorithms", "dfedmdc,local,dfedsmdc:sam=both", "--topology", "full,ring", "--seeds", "0-1")
    assert "7/7 " in dpeer(*more).succeed(
        SLOW
    )  # dfedmdc: 4; seed 1 of the others: 3, of which local is one for both graphs
    assert {name: cells[name].stat().st_mtime_ns for name in cells} == before


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", only(["Ctrl-C"], ["Ctrl-C", "terminated", "killed", "twice"]))
def test_stopped_in_the_middle_of_runs_it_goes_on_within_them_to_the_same_tables(
    how: str, command: Callable[..., Any], slow_after: Callable[[int], tuple[str, ...]], hurry: Callable[[], None],
    dpeer: Callable[..., Any], dpeer_command: Callable[..., Any], forked: Callable[[], list[int]],
    until: Callable[..., Any], rounds_done: Callable[..., int],
    simulate: Callable[..., None], task: str, schedule: tuple[str, ...], tmp_path: Path,
) -> None:  # fmt: skip
    rounds = 6
    rows = ("--algorithms", "dfedmdc,dfedsmdc,local", *slow_after(2))
    # A terminal's signal goes to whatever is of the command's session; the others go to one process, as forked as not.
    start = dpeer_command if how in ("Ctrl-C", "twice") else dpeer
    run = start(*command(*rows, "--out", "stopped", rounds=rounds))
    first = ("stopped/dfedmdc-ring-default-seed0", "stopped/dfedsmdc-ring-default-seed0")
    until(lambda: all(rounds_done(name, rank) >= 2 for name in first for rank in range(SIZE)), SLOW)
    match how:
        case "Ctrl-C" | "twice":
            os.killpg(run.pid, signal.SIGINT)  # a terminal's goes to the whole group
            if how == "twice":
                os.killpg(run.pid, signal.SIGTERM)  # a second one of the same kind could melt into the first
        case "terminated":
            run.signal(signal.SIGTERM)
        case "killed":
            run.signal(signal.SIGKILL)
    code = run.wait(SLOW)
    until(lambda: not run.offspring() and not forked())
    assert "Traceback" not in run.output
    if how == "twice":
        assert "Warning" not in run.output, "nothing of what a killed pool leaves behind"
    if how in ("Ctrl-C", "terminated"):
        assert code == 0
        assert run.output.rstrip().endswith("dpeer: stopped; the same command goes on")
    else:
        assert code != 0
    assert not (tmp_path / "stopped" / "comparison.md").exists()
    begun = {path.parent.parent.name for path in (tmp_path / "stopped").glob("*/rank-0/metrics.jsonl")}
    assert begun == {Path(name).name for name in first}, "what waited has not been begun"
    earlier = {name: (tmp_path / name / "rank-0" / "metrics.jsonl").read_text() for name in first}
    lines = {name: text.count("\n") for name, text in earlier.items()}
    assert all(2 <= count < rounds for count in lines.values()), (lines, earlier)

    hurry()
    resumed = dpeer(*command(*rows, "--out", "stopped", rounds=rounds))
    assert "3 of 3 runs to make" in resumed.succeed(SLOW)
    for name, text in earlier.items():  # gone on with, not begun anew: even the times are those of before
        assert (tmp_path / name / "rank-0" / "metrics.jsonl").read_text().startswith(text)
    options = ("--task", task, *schedule, "--size", SIZE, "--rounds", rounds)
    simulate(*options, "--algorithm", "dfedmdc", "--out", "plain")
    simulate(*options, "--algorithm", "dfedsmdc", "--out", "sharp")
    for name, whole in zip(first, ("plain", "sharp"), strict=True):
        assert models(tmp_path / name) == models(tmp_path / whole)
    if how == "Ctrl-C":
        dpeer(*command(*rows, "--out", "whole", rounds=rounds)).succeed(SLOW)
        assert tables(tmp_path / "stopped") == tables(tmp_path / "whole")


def test_training_accuracy_goes_from_the_peers_to_summary_tables_csv_and_report(
    command: Callable[..., Any], dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    rows = ("--algorithms", "local,dfedmdc", "--training-accuracy", "--at-round", "1,2")
    printed = dpeer(*command(*rows)).succeed(SLOW)
    assert "training accuracy after mixing, last round" in printed
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
    assert [float(line["generalization_gap"]) for line in listed] == pytest.approx(gaps)

    tables = (tmp_path / "dpeer-compare" / "comparison.md").read_text()
    training, test = (fmean(line[key] for line in last) for key in ("training_accuracy", "accuracy"))
    row = f"| dfedmdc | {training:.4f} | {test:.4f} | {training - test:+.4f} |"
    assert row in tables
    by_round = [fmean(own[number]["accuracy"] for own in lines) for number in range(2)]
    assert f"| dfedmdc | {by_round[0]:.4f} | {by_round[1]:.4f} |" in tables

    dpeer("report", "dpeer-compare").succeed(SLOW)
    page = Page(tmp_path / "dpeer-report" / "index.html")
    found = [(line["training accuracy after mixing"], line["generalization gap"]) for line in page.results()]
    assert (f"{training:.4f}", f"{training - test:+.4f}") in found
    assert (tmp_path / "dpeer-report" / "generalization-gap-by-round.png").exists()


def test_a_run_that_fails_ends_the_comparison_with_its_line_and_code_and_the_rest_stops(
    command: Callable[..., Any], dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    run = dpeer(*command("--algorithms", "local,dfedmdc", "--task-option", "sise=3"))
    assert run.wait(SLOW) == 2
    assert "Traceback" not in run.output
    (line,) = [line for line in run.output.splitlines() if line.startswith("dpeer: ")]
    assert line.startswith(("dpeer: local-default-seed0: ", "dpeer: dfedmdc-ring-default-seed0: "))
    assert "sise" in line
    # Nothing was run there: with the option put right, the same folder will do.
    dpeer(*command("--algorithms", "local,dfedmdc")).succeed(SLOW)


def test_a_script_without_a_main_guard_is_run_once(
    command: Callable[..., Any], dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    arguments = [str(argument) for argument in command("--algorithms", "local,dfedmdc")]
    script = f"print('begins', flush=True)\nfrom dpeer.cli import main\nmain({arguments!r})\n"
    (tmp_path / "script.py").write_text(script)
    printed = dpeer(program="script.py", executed=True).succeed(SLOW)
    assert printed.count("begins") == 1


def test_hyperparameters_are_chosen_on_validation_data_of_other_seeds(
    dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    common = ("--algorithms", "local,dfedmdc", "--size", SIZE, "--rounds", 1, "--body-epochs", 1)
    run = dpeer("compare", *common, "--grid", "body-lr+head-lr=0.0001,0.1", "--validation", 0.3)
    printed = run.succeed(SLOW)
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
