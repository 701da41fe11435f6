"""The effect of federating: `--alone`, `--baseline local` and `dpeer worth`; nothing of the run depends on them."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpeer.results.effect import NOTHING_RECEIVED, closing_lines, effect_of

pytestmark = pytest.mark.slow

ROUNDS = 3
SIZE = 2


def entry_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())["worth"]
    return found


def test_peers_that_also_train_alone_have_the_bits_of_those_that_do_not_and_what_local_comes_to(
    task, schedule, simulate, results, tmp_path
):
    federation = ("--topology", "ring", "--size", SIZE, "--task", task, "--task-option", "dropout=0.3",
                  *schedule, "--rounds", ROUNDS, "--seed", 3)  # fmt: skip
    simulate(*federation, "--alone", "always", "--out", "beside")
    simulate(*federation, "--out", "without")
    assert results("beside", SIZE) == results("without", SIZE)
    # dfedsmdc: two epochs of SAM and one of the head are five gradients of a sample.
    simulate(*federation, "--out", "local", "--algorithm", "local", "--body-epochs", 5)
    for rank in range(SIZE):
        worth = entry_of(tmp_path / f"beside/rank-{rank}")
        expected = json.loads((tmp_path / f"local/rank-{rank}/summary.json").read_text())
        assert worth["alone"] == expected["accuracy"]
        assert worth["rows"] == 21
        files = [tmp_path / f"{run}/rank-{rank}/test-rows.json" for run in ("beside", "local")]
        mine, its = (json.loads(path.read_text())["rows"] for path in files)
        assert worth["gain"] == pytest.approx((sum(mine) - sum(its)) / 21)
        assert worth["differ"] == sum(a != b for a, b in zip(mine, its, strict=True))
        area, other = worth["auroc"], worth["alone_auroc"]
        effect = effect_of(worth)
        assert effect is not None
        first, last = closing_lines(effect)
        assert first == (
            f"accuracy {worth['joined']:.4f} (AUROC {area:.4f}) on 21 own test rows; "
            f"local only: {worth['alone']:.4f} (AUROC {other:.4f})"
        )
        card = json.loads((tmp_path / f"beside/rank-{rank}/model.json").read_text())
        assert card["metrics"]["values"]["auroc"]["value"] == pytest.approx(area)
        assert last.startswith(f"gain {worth['gain']:+.4f} (95 % interval ")
        assert not (tmp_path / f"beside/rank-{rank}/alone").exists()


def test_a_comparison_that_was_left_out_is_made_later_and_goes_on_after_ctrl_c(
    task, schedule, slow_after, hurry, simulate, dpeer, meanwhile, interrupt, tmp_path
):
    federation = ("--topology", "ring", "--size", SIZE, "--task", task, *schedule, "--rounds", ROUNDS,
                  "--algorithm", "dfedavgm")  # fmt: skip
    hurry()
    simulate(*federation, "--alone", "always", "--out", "beside")
    simulate(*federation, *slow_after(1), "--out", "later")
    (tmp_path / "hurry").unlink()
    with meanwhile((tmp_path / "later/rank-1/alone/round-00000000").exists, interrupt):
        first = dpeer("worth", "later/rank-1")
    assert first.code == 0
    message = (first.out + first.err).splitlines()[-1]
    assert message.endswith("of 3 rounds of local-only training; the same command goes on")
    hurry()
    again = dpeer("worth", "later/rank-1").out.splitlines()
    expected, found = (entry_of(tmp_path / out / "rank-1") for out in ("beside", "later"))
    assert found == expected
    assert again[-2].startswith(f"dpeer: accuracy {found['joined']:.4f} (AUROC ")
    assert again[-1].startswith(f"dpeer: gain {found['gain']:+.4f} (95 % interval ")
    both = dpeer("worth", "later").out.splitlines()
    assert [line.split(":")[1] for line in both[-6:-2]] == [" rank-0", " rank-0", " rank-1", " rank-1"]
    assert "of 2 peers improved over local only" in both[-2]
    assert both[-1].startswith("dpeer: 2 peers together: ")


def test_a_run_compares_with_what_its_peers_would_have_alone(task, schedule, simulate, tmp_path):
    common = ("--size", 2, "--task", task, *schedule, "--rounds", 2, "--algorithm", "dfedavgm")
    lines = simulate(*common, "--alone", "auto", "--out", "auto").out.splitlines()
    summary = json.loads(simulate(*common, "--baseline", "local", "--out", "l", "--json").out.splitlines()[-1])
    first = json.loads((tmp_path / "auto/summary.json").read_text())
    assert first["worth"] == json.loads((tmp_path / "l/summary.json").read_text())["worth"] == summary["worth"]
    assert summary["baseline"] is None, "it is no run of its own"
    assert not (tmp_path / "l/baseline-local").exists()
    assert any("peers improved over local only" in line for line in lines)
    # dfedavgm computes as many gradients as local does with as many epochs.
    simulate(*common[:-1], "local", "--out", "alone")
    assert [worth["alone"] for worth in first["worth"]] == json.loads((tmp_path / "alone/summary.json").read_text())[
        "accuracy"
    ]


def test_a_started_peer_that_has_diverged_ends_with_exit_code_1_and_leaves_its_files(dpeer, tmp_path):
    wild = ("--size", 2, "--rounds", 1, "--body-lr", "1e9", "--head-lr", "1e9")
    ended = dpeer("start", *wild, "--algorithm", "local", "--out", "start", "--rank", 1)
    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith("dpeer: training has diverged on rank 1: ")
    assert (tmp_path / "start/rank-1/model.safetensors").exists()
    assert json.loads((tmp_path / "start/rank-1/summary.json").read_text())["diverged"] is True


CONTRARY = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank, size, seed):
    inputs = torch.randn(240, 3, generator=torch.Generator().manual_seed(rank))
    targets = (inputs[:, 0] > 0).long()
    if rank == 0:
        targets = 1 - targets
    parts = [TensorDataset(inputs[rows], targets[rows]) for rows in (slice(160), slice(160, 240))]
    return Task(model=nn.Linear(3, 2), head=(), train=parts[0], test=parts[1])
"""
"""Rank 0 learns the contrary of what the two others do."""


def test_a_peer_keeps_the_model_trained_alone_where_joining_makes_it_worse(simulate, tmp_path):
    (tmp_path / "contrary.py").write_text(CONTRARY)
    common = ("--size", 3, "--topology", "full", "--task", "contrary.py:task", "--algorithm", "dfedavgm",
              "--rounds", 3, "--body-epochs", 1, "--body-lr", 0.02, "--finish", "none",
              "--training-accuracy")  # fmt: skip
    simulate(*common, "--alone", "always", "--out", "run")
    simulate(*common, "--algorithm", "local", "--out", "local")
    simulate(*common, "--alone", "always", "--keep", "last", "--out", "last")
    folder, local = tmp_path / "run/rank-0", tmp_path / "local/rank-0"
    summary, expected = (json.loads((one / "summary.json").read_text()) for one in (folder, local))
    card, its = (json.loads((one / "model.json").read_text()) for one in (folder, local))
    worth = summary["worth"]
    assert worth["kept"] == "alone"
    assert worth["alone_validation_loss"] < worth["validation_loss"]
    assert worth["gain"] < 0, "the verdict stays about federating"
    assert worth["joined"] < worth["alone"]
    assert (folder / "model.safetensors").read_bytes() == (local / "model.safetensors").read_bytes()
    assert summary["kept_point"] == card["federation"]["kept_point"] == "alone"
    assert summary["kept_round"] == card["federation"]["kept_round"] == expected["kept_round"]
    for name in ("accuracy", "test_loss", "metrics", "training_accuracy", "generalization_gap"):
        assert summary[name] == expected[name] is not None, name
    assert summary["measured"] == expected["measured"]
    assert card["metrics"] == its["metrics"]
    assert card["own_metrics"] == its["own_metrics"] == expected["metrics"]
    assert summary["accuracy_alone"] == summary["accuracy"] == worth["alone"]
    assert worth["joined"] in (summary["accuracy_mixed"], summary["accuracy_trained"])
    for rank in (1, 2):
        other = json.loads((tmp_path / f"run/rank-{rank}/summary.json").read_text())
        assert (other["kept_point"] == "alone") == (other["worth"]["kept"] == "alone")
    last = json.loads((tmp_path / "last/rank-0/summary.json").read_text())
    assert last["worth"]["kept"] is None, "without validation data nothing is weighed"
    assert last["kept_point"] == "mixed"


def test_without_a_body_received_there_is_no_verdict(task, schedule, simulate, tmp_path):
    common = ("--size", 4, "--task", task, *schedule, "--rounds", 3)
    # No body is near enough to the own one, so every one is left out.
    printed = simulate(*common, "--max-norm", 1e-9, "--alone", "always", "--baseline", "local", "--out", "none").out
    simulate(*common, "--participation", 0.5, "--topology", "full", "--alone", "always", "--out", "few")
    none, few = (json.loads((tmp_path / run / "rank-0/summary.json").read_text()) for run in ("none", "few"))
    both = json.loads((tmp_path / "none/summary.json").read_text())["worth"]
    for entry in (none["worth"], both[0]):
        worth = effect_of(entry)
        assert worth is not None
        assert (worth.rounds_mixed, worth.gain, worth.verdict, worth.kept) == (0, None, None, None)
        assert closing_lines(worth)[-1] == f"no comparison with local only: {NOTHING_RECEIVED}"
    assert none["worth"]["alone"] is None, "two accuracies beside each other would read as a gain"
    assert f"no comparison with local only: {NOTHING_RECEIVED}\n" in printed
    assert "gain" not in printed
    assert "improved" not in printed

    mixed, worth = few["rounds_mixed"], effect_of(few["worth"])
    assert 0 < mixed < 3
    assert worth is not None
    assert closing_lines(worth)[1].endswith(f"; bodies mixed in {mixed} of 3 rounds")


def test_the_baseline_local_is_what_each_peer_would_have_alone(simulate, task, schedule, tmp_path):
    """SAM and the head's epoch are gradients, too: alone a peer has as many, and its head's rate to finish with."""
    (tmp_path / "dpeer.toml").write_text("[rank.1]\nbody_epochs = 3\nlocal_steps = 4\n")
    common = ("--size", 3, "--task", task, *schedule, "--rounds", 2, "--finish", "head:1", "--head-lr", 0.3)
    simulate(*common, "--alone", "always", "--out", "run")
    simulate(*common, "--alone", "never", "--baseline", "local", "--out", "after")
    for rank in range(3):
        own, after = (
            json.loads((tmp_path / where / f"rank-{rank}/summary.json").read_text())
            for where in ("run", "after/baseline-local")
        )
        assert own["worth"]["alone"] == after["accuracy"]
        assert own["worth"]["alone_auroc"] == after["worth"]["auroc"]
