"""What a peer trains alone beside the run: which model is kept, and when nothing can be compared."""

import json

import pytest

from dpeer.results.effect import NOTHING_RECEIVED, closing_lines, effect_of

pytestmark = pytest.mark.slow

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
    printed = simulate(*common, "--max-norm", 1e-9, "--alone", "always", "--out", "none").out
    simulate(*common, "--participation", 0.5, "--topology", "full", "--alone", "always", "--out", "few")
    none, few = (json.loads((tmp_path / run / "rank-0/summary.json").read_text()) for run in ("none", "few"))
    both = json.loads((tmp_path / "none/summary.json").read_text())["worth"]
    for entry in (none["worth"], both[0]):
        worth = effect_of(entry)
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
