"""The other methods of DP-FedAdamW's tables with `--privacy sample`, from the command line, under one accounting."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

METHODS = {"fedavg": 1, "scaffold": 1, "fedavg-ls": 1, "fedopt": 1, "fafed": 2, "fedlada": 1}
"""And how many gradients a step takes."""


def test_rounds_with_privacy_spend_what_their_gradients_do(dpeer: Callable[..., Any], tmp_path: Path) -> None:
    spent, sent = {}, {}
    for name in METHODS:
        run = dpeer(
            "simulate", "--size", 3, "--rounds", 2, "--local-steps", 2, "--task", "digits", "--algorithm", name,
            "--head", "", "--privacy", "sample", "--noise-multiplier", 1.5, "--sampling-rate", 0.1, "--out", name,
        )  # fmt: skip
        run.succeed()
        summary = json.loads((tmp_path / name / "summary.json").read_text())
        assert summary["privacy"]["steps"] == 4
        spent[name] = summary["privacy"]["epsilon"]
        lines = [json.loads(line) for line in (tmp_path / name / "rank-0" / "metrics.jsonl").read_text().splitlines()]
        sent[name] = sum(line["bytes_sent"] for line in lines)
    for name, looks in METHODS.items():
        assert (spent[name] == spent["fedavg"]) == (looks == 1)
        assert spent[name] >= spent["fedavg"]
    bodies = {name: round(value / sent["fedavg"]) for name, value in sent.items()}
    assert bodies == {"fedavg": 1, "scaffold": 2, "fedavg-ls": 1, "fedopt": 2, "fafed": 3, "fedlada": 3}
