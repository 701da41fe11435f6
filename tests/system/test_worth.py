"""`dpeer start` says at its end whether joining helped, and nothing of the run depends on that."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpeer.results.worth import NOTHING_RECEIVED, ending, worth_of

pytestmark = pytest.mark.slow

ROUNDS = 3
SIZE = 2


def test_peers_that_also_train_alone_have_the_bits_of_those_that_do_not_and_tell_what_local_comes_to(
    task: str,
    schedule: tuple[str, ...],
    dpeer: Callable[..., Any],
    simulate: Callable[..., None],
    results: Callable[..., Any],
    free_ports: Callable[[int], int],
    tmp_path: Path,
) -> None:
    federation = ("--topology", "ring", "--size", SIZE, "--task", task, "--task-option", "dropout=0.3",
                  *schedule, "--rounds", ROUNDS, "--seed", 3)  # fmt: skip
    common = ("start", *federation, "--threads", 1, "--out", "beside", "--base-port", free_ports(SIZE))
    ended = [dpeer(*common, "--alone", "always", "--rank", rank) for rank in range(SIZE)]
    printed = [peer.succeed() for peer in ended]
    simulate(*federation, "--out", "without")
    assert results("beside", SIZE) == results("without", SIZE)

    # dfedsmdc: two epochs of SAM and one of the head are five gradients of a sample.
    simulate(*federation, "--out", "local", "--algorithm", "local", "--body-epochs", 5)
    for rank, text in enumerate(printed):
        lines = text.splitlines()
        assert lines[-3].startswith(f"dpeer: done after {ROUNDS} rounds, accuracy ")
        worth = json.loads((tmp_path / f"beside/rank-{rank}/summary.json").read_text())["worth"]
        expected = json.loads((tmp_path / f"local/rank-{rank}/summary.json").read_text())
        assert worth["alone"] == expected["accuracy"]
        assert worth["rows"] == 21
        files = [tmp_path / f"{run}/rank-{rank}/test-rows.json" for run in ("beside", "local")]
        mine, its = (json.loads(path.read_text())["rows"] for path in files)
        assert worth["gain"] == pytest.approx((sum(mine) - sum(its)) / 21)
        assert worth["differ"] == sum(a != b for a, b in zip(mine, its, strict=True))
        area, other = worth["auroc"], worth["alone_auroc"]
        assert lines[-2] == (
            f"dpeer: accuracy {worth['joined']:.4f} (AUROC {area:.4f}) on 21 own test rows; "
            f"alone: {worth['alone']:.4f} (AUROC {other:.4f})"
        )
        card = json.loads((tmp_path / f"beside/rank-{rank}/model.json").read_text())
        assert card["metrics"]["values"]["auroc"]["value"] == pytest.approx(area)
        assert lines[-1].startswith(f"dpeer: gain {worth['gain']:+.4f} (95 % interval ")
        assert not (tmp_path / f"beside/rank-{rank}/alone").exists()


def test_a_cluster_compares_with_what_was_trained_beside_or_afterwards(
    task: str, schedule: tuple[str, ...], dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    common = ("--size", 2, "--task", task, *schedule, "--rounds", 2, "--algorithm", "dfedavgm")
    beside = dpeer("cluster", *common, "--alone", "always", "--out", "beside")
    after = dpeer("cluster", *common, "--baseline", "local", "--out", "after", "--json")
    lines = beside.succeed().splitlines()
    summary = json.loads(after.succeed().splitlines()[-1])
    first = json.loads((tmp_path / "beside/summary.json").read_text())
    # dfedavgm computes as many gradients as local, so both are the same.
    assert first["worth"] == json.loads((tmp_path / "after/summary.json").read_text())["worth"] == summary["worth"]
    assert summary["baseline"]["accuracy"] == [worth["alone"] for worth in first["worth"]]
    assert any(line.startswith("joining helped ") for line in lines)


def test_a_peer_that_has_diverged_ends_with_exit_code_1_and_leaves_its_files(
    dpeer: Callable[..., Any], free_ports: Callable[[int], int], tmp_path: Path
) -> None:
    wild = ("--size", 2, "--rounds", 1, "--body-lr", "1e9", "--head-lr", "1e9")
    port = free_ports(2)
    start = dpeer("start", *wild, "--algorithm", "local", "--base-port", port, "--out", "start", "--rank", 1)
    cluster = dpeer("cluster", *wild, "--algorithm", "dfedmdc", "--out", "cluster")
    assert start.wait() == 1
    assert "Traceback" not in start.output
    assert start.output.splitlines()[-1].startswith("dpeer: training has diverged on rank 1: ")
    assert (tmp_path / "start/rank-1/model.safetensors").exists()
    assert json.loads((tmp_path / "start/rank-1/summary.json").read_text())["diverged"] is True
    assert cluster.wait() == 1
    assert cluster.output.splitlines()[-1].startswith("dpeer: training has diverged on ranks 0, 1: ")
    assert json.loads((tmp_path / "cluster/summary.json").read_text())["diverged"] == [0, 1]


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


def test_a_peer_keeps_the_model_trained_alone_where_joining_makes_it_worse(
    simulate: Callable[..., None], tmp_path: Path
) -> None:
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
    assert worth["gain"] < 0, "the verdict stays about joining"
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


def test_without_a_body_received_there_is_no_verdict(
    task: str, schedule: tuple[str, ...], simulate: Callable[..., None], tmp_path: Path, capsys: Any
) -> None:
    common = ("--size", 4, "--task", task, *schedule, "--rounds", 3)
    # No body is near enough to the own one, so every one is left out.
    simulate(*common, "--max-norm", 1e-9, "--alone", "always", "--baseline", "local", "--out", "none")
    printed = capsys.readouterr().out
    simulate(*common, "--participation", 0.5, "--topology", "full", "--alone", "always", "--out", "few")
    none, few = (json.loads((tmp_path / run / "rank-0/summary.json").read_text()) for run in ("none", "few"))
    both = json.loads((tmp_path / "none/summary.json").read_text())["worth"]
    for entry in (none["worth"], both[0]):
        worth = worth_of(entry)
        assert worth is not None
        assert (worth.rounds_mixed, worth.gain, worth.verdict, worth.kept) == (0, None, None, None)
        assert ending(worth)[-1] == f"no comparison with this peer alone: {NOTHING_RECEIVED}"
    assert none["worth"]["alone"] is None, "two accuracies beside each other would read as a gain"
    assert printed.count(" - ") >= 5, "no gain of a peer, nor a mean"
    assert "joining helped" not in printed

    mixed, worth = few["rounds_mixed"], worth_of(few["worth"])
    assert 0 < mixed < 3
    assert worth is not None
    assert ending(worth)[1].endswith(f"; bodies mixed in {mixed} of 3 rounds")


def test_the_baseline_local_is_what_each_peer_would_have_alone(
    simulate: Callable[..., None], task: str, schedule: tuple[str, ...], tmp_path: Path
) -> None:
    """SAM and the head's epoch are gradients, too: alone a peer has as many, and its head's rate to finish with."""
    (tmp_path / "dpeer.toml").write_text("[rank.1]\nbody_epochs = 3\nlocal_steps = 4\n")
    common = ("--size", 3, "--task", task, *schedule, "--rounds", 2, "--finish", "head:1", "--head-lr", 0.3)
    simulate(*common, "--alone", "always", "--baseline", "local", "--out", "run")
    for rank in range(3):
        own, after = (
            json.loads((tmp_path / f"run/{where}rank-{rank}/summary.json").read_text())
            for where in ("", "baseline-local/")
        )
        assert own["worth"]["alone"] == after["accuracy"]
        assert own["worth"]["alone_auroc"] == after["worth"]["auroc"]
