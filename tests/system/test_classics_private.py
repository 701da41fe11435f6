"""The other methods of DP-FedAdamW's tables with `--privacy sample`, from the command line, under one accounting."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

METHODS = {
    "fedavg": (1, 1),
    "scaffold": (1, 2),
    "fedavg-ls": (1, 1),
    "fedopt": (1, 2),
    "fafed": (2, 3),
    "fedlada": (1, 3),
}
"""How many gradients a step takes, and how many vectors a message has."""


@pytest.mark.parametrize(
    "more", [["fafed"], pytest.param(["scaffold", "fedavg-ls", "fedopt", "fedlada"], marks=pytest.mark.long)]
)
def test_rounds_with_privacy_spend_what_their_gradients_do(
    more: list[str], dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    spent, sent = {}, {}
    for name in ["fedavg", *more]:
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
    for name in spent:
        looks, vectors = METHODS[name]
        assert (spent[name] == spent["fedavg"]) == (looks == 1)
        assert spent[name] >= spent["fedavg"]
        assert round(sent[name] / sent["fedavg"]) == vectors
