"""`dpeer compare` with its runs: those of `dpeer simulate`, and what is chosen by and read from them."""

import csv
import json
from statistics import fmean

import pytest

from tests.report.conftest import Page

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("run_cells_here")]

SIZE = 3


@pytest.fixture
def compared(dpeer, task, schedule):
    """Compare in this process; what was printed."""

    def run(*rows: object) -> str:
        ended = dpeer("compare", "--task", task, *schedule, "--size", SIZE, "--rounds", 2, "--jobs", 2, *rows)
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
