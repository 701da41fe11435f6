"""DIR/summary.json over all peers."""

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from safetensors.numpy import save_file

from dpeer.cli.summary_table import show
from dpeer.federation.run import collect
from dpeer.results.figures import privacy_line
from dpeer.results.run_folders import find_runs


def peer(out: Path, rank: int, body: list[float], head: float, **changes: Any) -> None:
    folder = out / f"rank-{rank}"
    folder.mkdir(parents=True)
    summary = {
        "size": 3, "topology": "ring", "algorithm": "dfedmdc", "task": "t", "partition": None, "rounds": 4, "seed": 1,
        "spectral_gap": 1.0, "body_parameters": 2, "head_parameters": 1,
        "settings": {"keep": "last"}, "rank": rank, "status": "done", "completed_rounds": 4, "accuracy": 0.5,
        "accuracy_mixed": 0.5,
        "accuracy_trained": 0.25, "bytes_sent": 100, "epsilon": None, "delta": None, "lost": {},
    } | changes  # fmt: skip
    (folder / "summary.json").write_text(json.dumps(summary))
    learner = folder / "checkpoint" / "round-00000004" / "learner"
    learner.mkdir(parents=True)
    tensors = {"last/body": body, "last/head": [head]}
    save_file(
        {name: np.array(values, dtype=np.float32) for name, values in tensors.items()}, learner / "learner.safetensors"
    )


def printed(summary: dict[str, Any], out: Path, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    show(console, summary, out)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]


def test_what_the_design_promises_is_there(tmp_path: Path) -> None:
    peer(tmp_path, 0, [0.0, 0.0], 100.0, accuracy=0.2)
    peer(tmp_path, 1, [3.0, 0.0], -100.0, accuracy=0.4, accuracy_trained=0.5)
    peer(tmp_path, 2, [0.0, 3.0], 7.0, accuracy=0.9)
    found = collect(tmp_path, 3, 12.3456)
    assert json.loads((tmp_path / "summary.json").read_text()) == found
    # mean (1, 1); squared distances 2, 5 and 5; heads play no part
    assert found["consensus_distance"] == pytest.approx(math.sqrt((2 + 5 + 5) / 3))
    assert found["accuracy"] == [0.2, 0.4, 0.9]
    assert found["accuracy_mean"] == pytest.approx(0.5)
    assert found["accuracy_std"] == pytest.approx(math.sqrt((0.09 + 0.01 + 0.16) / 3)), "ddof 0"
    assert found["accuracy_min"] == 0.2
    assert found["accuracy_trained_mean"] == pytest.approx(1 / 3)
    expected = {
        "size": 3, "topology": "ring", "algorithm": "dfedmdc", "task": "t", "partition": None, "rounds": 4, "seed": 1,
        "spectral_gap": 1.0, "body_parameters": 2, "head_parameters": 1, "bytes_sent": 300, "wall_seconds": 12.346,
        "epsilon": None, "delta": None, "status": "done",
    }  # fmt: skip
    assert expected.items() <= found.items()


def test_a_lost_peer_is_null_and_left_out_of_means(tmp_path: Path) -> None:
    peer(tmp_path, 0, [1.0, 0.0], 0.0, accuracy=0.25, lost={"1": "silent for 3 s"})
    peer(tmp_path, 2, [3.0, 0.0], 0.0, accuracy=0.75)
    found = collect(tmp_path, 3, 1.0)
    assert found["status"] == "failed"
    assert found["accuracy"] == [0.25, None, 0.75]
    assert found["completed_rounds"] == [4, None, 4]
    assert (found["accuracy_mean"], found["accuracy_std"], found["accuracy_min"]) == (0.5, 0.25, 0.25)
    assert found["consensus_distance"] == pytest.approx(1.0)
    assert found["lost"] == {"0": {"1": "silent for 3 s"}}


def test_a_peer_that_was_killed_while_writing_is_null(tmp_path: Path) -> None:
    peer(tmp_path, 0, [1.0, 0.0], 0.0)
    peer(tmp_path, 1, [1.0, 0.0], 0.0)
    (tmp_path / "rank-1" / "summary.json").write_text('{"size": 2, "acc')
    assert collect(tmp_path, 2, 1.0)["accuracy"] == [0.5, None]


def test_the_epsilon_of_a_run_is_the_largest_of_all_peers(tmp_path: Path) -> None:
    for rank, epsilon in enumerate((1.5, 50.0, 1.0)):
        spent = {"guarantee": "everything", "epsilon": epsilon, "delta": 1e-5, "releases": 3}
        peer(tmp_path, rank, [1.0, 0.0], 0.0, epsilon=epsilon, delta=1e-5, privacy=spent)
    assert "epsilon 50 at delta 1e-05" in privacy_line(collect(tmp_path, 3, 1.0)["privacy"])


@pytest.mark.parametrize(("split", "last"), [("disjoint", ["+0.0826 to +0.2125", "improved"]), ("shared", ["-", "-"])])
def test_the_mean_has_the_interval_of_all_rows_that_are_different_ones(
    split: str, last: list[str], tmp_path: Path
) -> None:
    worth = {
        "measure": "accuracy", "on": "test", "rows": 60, "joined": 0.5, "alone": 0.35,
        "gain": 0.15, "low": 0.05, "high": 0.25, "differ": 9, "verdict": "inconclusive",
    }  # fmt: skip
    for rank in range(2):
        settings = {"keep": "last", "test_split": split}
        peer(tmp_path, rank, [rank * 2.0, 0.0], 0.0, settings=settings, worth=worth)
    rows = rows_of(printed({**collect(tmp_path, 2, 1.0), "worth": [worth, worth]}, tmp_path))
    assert rows[0] == ["0", "0.5000", "0.3500", "+0.1500", "+0.0500 to +0.2500", "inconclusive"]
    assert rows[-1] == ["mean", "0.5000", "0.3500", "+0.1500", *last]


def test_when_every_peer_was_killed_nothing_is_shown(tmp_path: Path) -> None:
    found = collect(tmp_path, 2, 1.0)
    assert (found["status"], found["accuracy"], found["accuracy_mean"]) == ("failed", [None, None], None)
    assert printed(found, tmp_path) == ""


LOSING = {
    "measure": "accuracy", "on": "test", "rows": 60, "joined": 0.5, "alone": 0.65,
    "gain": -0.15, "low": -0.25, "high": -0.05, "differ": 9, "verdict": "worse", "kept": "alone",
}  # fmt: skip


def test_a_gain_is_the_difference_of_its_two_columns_also_where_local_only_is_kept(tmp_path: Path) -> None:
    for rank, point in enumerate(("alone", "mixed")):
        kept = {"kept_point": point, "kept_round": 1 + rank, "accuracy": 0.65 if point == "alone" else 0.5}
        peer(tmp_path, rank, [0.0, 0.0], 0.0, settings={"keep": "best"}, worth=LOSING, measured={"auroc": 0.7}, **kept)
    found = collect(tmp_path, 2, 1.0)
    text = printed(found, tmp_path, 80)
    rows = rows_of(text)
    assert rows[0] == ["0", "0.5000", "0.6500", "-0.1500", "-0.2500 to -0.0500", "worse"]
    assert rows[-1] == ["mean", "0.5000", "0.6500", "-0.1500", "-0.2125 to -0.0826", "worse"]
    heads = [cell.strip() for cell in text.splitlines()[2].split("┃")[1:-1]]
    assert heads == ["rank", "federated", "local only", "gain", "95 % interval", "verdict"]
    (line,) = (line for line in text.splitlines() if line.startswith("kept by validation loss: "))
    assert "1 after mixing, 1 local only (rank 0), of round 2 to 3; mean accuracy of the kept models 0.5750" in line
    assert "after the mixing of the kept rounds" not in text, "the federated models are those after mixing"
    assert "mean over the kept models: AUROC 0.7000" in text
    assert max(map(len, (line for line in text.splitlines() if "│" in line))) <= 80


def test_a_mean_is_of_the_peers_that_have_both_figures(tmp_path: Path) -> None:
    peer(tmp_path, 0, [0.0, 0.0], 0.0, worth=LOSING)
    peer(tmp_path, 1, [0.0, 0.0], 0.0, accuracy=0.9, worth={"measure": "accuracy", "joined": 0.9, "why": "no time"})
    text = printed(collect(tmp_path, 2, 1.0), tmp_path, 80)
    assert rows_of(text) == [
        ["0", "0.5000", "0.6500", "-0.1500", "-0.2500 to -0.0500", "worse"],
        ["1", "0.9000", "-", "-", "-", "-"],
        ["mean", "0.5000", "0.6500", "-0.1500", "-", "-"],
    ]
    assert "\n1 of 2 peers have both figures, and are in the means; federated, mean of all: 0.7000\n" in text
    assert "2 parameters gossiped, 1 kept at home" in text
    assert "consensus distance 0.0000" in text
    assert str(tmp_path / "summary.json") in text


def test_all_are_the_members_of_the_last_list(tmp_path: Path) -> None:
    better = LOSING | {"joined": 0.8, "gain": 0.15, "low": 0.05, "high": 0.25, "verdict": "improved", "kept": "joined"}
    for rank, (worth, status) in enumerate([(LOSING, "left"), (better, "done"), (better, "done")]):
        peer(tmp_path, rank, [0.0, 0.0], 0.0, accuracy=worth["joined"], worth=worth, status=status)
    for rank, (version, members) in enumerate([(2, (1, 2)), (2, (1, 2)), (1, (0, 1, 2))]):
        last = {"version": version, "members": {str(one): {} for one in members}}
        (tmp_path / f"rank-{rank}" / "members.json").write_text(json.dumps({"list": last, "next": None}))
    found = collect(tmp_path, 3, 1.0)
    assert found["status"] == "done", "a peer that has left needs no --resume"
    text = printed(found, tmp_path)
    rows = rows_of(text)
    assert rows[0] == ["0", "0.5000", "0.6500", "-0.1500", "-0.2500 to -0.0500", "worse"]
    assert rows[-1] == ["mean", "0.8000", "0.6500", "+0.1500", "+0.0826 to +0.2125", "improved"]
    assert "2 of 3 peers improved over local only; 1 worse; 2 peers together: improved over local only" in text
    assert "; not counted, because no member any more: rank 0\n" in text
    (run,) = find_runs([tmp_path])
    assert run.members == (1, 2)


def test_training_accuracy_of_private_peers_stays_in_their_own_folders(tmp_path: Path) -> None:
    measured = {"accuracy": 0.5, "training_accuracy": 0.75, "generalization_gap": 0.25, "kept_point": "mixed"}
    peer(tmp_path / "plain", 0, [0.0, 0.0], 0.0, **measured)
    peer(tmp_path / "plain", 1, [0.0, 0.0], 0.0, **measured | {"generalization_gap": 0.35})
    found = collect(tmp_path / "plain", 2, 1.0)
    assert found["training_accuracy_mean"] == 0.75
    assert found["generalization_gap_mean"] == pytest.approx(0.3)
    text = printed(found, tmp_path, 200)
    assert "training accuracy of the kept models: mean 0.7500, generalization gap +0.3000" in text

    spent = {"epsilon": 2.0, "delta": 1e-5, "guarantee": "", "mode": "sample"}
    peer(tmp_path / "private", 0, [0.0, 0.0], 0.0, **measured, epsilon=2.0, privacy=spent)
    found = collect(tmp_path / "private", 1, 1.0)
    assert found["training_accuracy_mean"] is found["generalization_gap_mean"] is None


@pytest.mark.parametrize(("measure", "shown"), [("accuracy", range(10)), ("test_loss", range(90, 100))])
def test_of_very_many_peers_those_that_did_worst_are_printed(tmp_path: Path, measure: str, shown: range) -> None:
    for rank in range(100):
        values = {"accuracy": None, "test_loss": rank / 100} if measure == "test_loss" else {"accuracy": rank / 100}
        peer(tmp_path, rank, [0.0, 0.0], 0.0, **values)
    cells = rows_of(printed(collect(tmp_path, 100, 1.0), tmp_path))
    assert [cell[0] for cell in cells] == [*map(str, shown), "...", "mean"]
    assert cells[-2][1] == "90 better"
    assert float(cells[-1][1]) == pytest.approx(0.495)


def test_a_tasks_own_metrics_are_there_by_rank_and_as_means(tmp_path: Path) -> None:
    own = ({"accuracy": 0.5, "dice": 0.25}, {"accuracy": 0.5, "dice": 0.75}, {"accuracy": 0.5, "dice": None})
    for rank, metrics in enumerate(own):
        peer(tmp_path, rank, [0.0, 0.0], 0.0, metrics=metrics, measured={"accuracy": 0.9, "auroc": 0.25 * rank})
    found = collect(tmp_path, 3, 1.0)
    assert found["metrics"]["dice"] == [0.25, 0.75, None]
    assert found["metrics_mean"] == {"accuracy": 0.5, "dice": 0.5, "auroc": 0.25}
    text = printed(found, tmp_path, 80)
    assert "│    1 │ 0.7500 │" in text
    assert "│    2 │      - │" in text
    assert "mean over the peers: AUROC 0.2500" in text


def test_of_many_own_metrics_those_that_fit_are_printed_and_the_others_named(tmp_path: Path) -> None:
    names = [f"a_rather_long_name_{number}" for number in range(7)]
    peer(tmp_path, 0, [0.0, 0.0], 0.0, metrics=dict.fromkeys(names, 0.5))
    text = printed(collect(tmp_path, 1, 1.0), tmp_path, 80)
    assert text.count("a_rather") == 2, "five in the table by their words, two named"
    assert max(len(line) for line in text.splitlines() if line.startswith("│")) <= 80
    assert "more metrics in summary.json: a_rather_long_name_5, a_rather_long_name_6" in text


def test_of_a_regression_the_two_columns_are_losses_and_no_cell_is_cut(tmp_path: Path) -> None:
    """The longest interval takes two lines."""
    unlikely = {"measure": "test_loss", "rows": 8, "joined": 1234.5, "alone": 1000.25, "gain": -234.25, "low": -400.5}
    worth = LOSING | unlikely | {"high": -2.5, "verdict": "inconclusive"}
    kept = {"kept_point": "alone", "kept_round": 0, "test_loss": 1000.25, "metrics": {"mae": 20.0}}
    peer(tmp_path, 0, [0.0, 0.0], 0.0, accuracy=None, settings={"keep": "best"}, worth=worth, **kept)
    found = collect(tmp_path, 1, 1.0)
    text = printed(found, tmp_path, 80)
    rows = rows_of(text)
    cells = ["1234.5000", "1000.2500", "-234.2500"]
    assert rows[0] == ["0", *cells, "-400.5000 to", "probably worse"]
    assert rows[1:3] == [["", "", "", "", "-2.5000", ""], ["mean", *cells, "-", "-"]]
    assert max(map(len, (line for line in text.splitlines() if "│" in line))) <= 80
    assert "test loss on each peer's own test data (lower is better)" in text
    assert "metrics of the kept models:" in text
