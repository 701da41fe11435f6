"""A run that has diverged is not a success."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

WILD = {"size": 2, "rounds": 1, "body_lr": 1e38, "head_lr": 1e38, "algorithm": "dfedmdc", "body_epochs": 30}


def test_a_simulation_prints_its_table_and_ends_with_1(dpeer: Callable[..., Any], small_task: Path) -> None:
    flags = [part for key, value in WILD.items() for part in (f"--{key.replace('_', '-')}", value)]
    ended = dpeer("simulate", *flags, "--task", "mine.py:task")
    assert ended.code == 1
    assert "summary dpeer-run/summary.json" in ended.out
    assert ended.complaints[-1].startswith("dpeer: training has diverged on ranks 0, 1: at the end the loss or the ")
    assert "cannot be used: lower the learning rates (--body-lr, --head-lr)" in ended.complaints[-1]
    summary = json.loads(Path("dpeer-run/summary.json").read_text())
    assert (summary["status"], summary["diverged"]) == ("done", [0, 1])
    assert Path("dpeer-run/rank-1/model.safetensors").exists()
    assert summary["worth"][0]["why"] == "training has diverged"


def test_a_started_peer_ends_with_1_and_leaves_its_files(dpeer: Callable[..., Any], small_task: Path) -> None:
    flags = [part for key, value in WILD.items() for part in (f"--{key.replace('_', '-')}", value)]
    ended = dpeer("start", *flags, "--task", "mine.py:task", "--algorithm", "local", "--rank", 1)
    assert ended.code == 1
    assert ended.complaints[-1].startswith("dpeer: training has diverged on rank 1: ")
    assert Path("dpeer-run/rank-1/model.safetensors").exists()
    assert json.loads(Path("dpeer-run/rank-1/summary.json").read_text())["diverged"] is True


def test_a_loss_that_gradient_clipping_keeps_finite_is_no_success_either(
    dpeer: Callable[..., Any], small_task: Path
) -> None:
    run = ("simulate", "--size", 2, "--rounds", 1, "--task", "mine.py:task")
    ended = dpeer(*run, "--body-lr", "1e9", "--head-lr", "1e9")
    assert ended.code == 1
    assert any("training has diverged: the loss is" in line for line in ended.complaints)
    ended = dpeer(*run, "--overwrite", "--json")
    assert ended.code == 0
    summary = json.loads(ended.out)
    assert summary == json.loads(Path("dpeer-run/summary.json").read_text())
    assert summary["diverged"] == []
