"""FedAdamW and LocalAdamW with privacy at sample level, from the command line on the digits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROUNDS, STEPS, SIZE = 3, 4, 2
SAMPLE = ("--privacy", "sample", "--noise-multiplier", 1)
SHORT = ("--size", SIZE, "--task", "digits", "--rounds", ROUNDS, "--local-steps", STEPS)


@pytest.mark.parametrize(
    ("mode", "algorithm", "more", "head"),
    [
        ("simulate", "fedadamw", (), 1290),
        ("simulate", "localadamw", (), 1290),
        pytest.param("simulate", "fedadamw", ("--head", ""), 0, marks=pytest.mark.long),
        ("cluster", "fedadamw", (), 1290),
        pytest.param("cluster", "fedadamw", ("--head", ""), 0, marks=pytest.mark.long),
        pytest.param("cluster", "localadamw", (), 1290, marks=pytest.mark.long),
    ],
)
def test_they_train_and_pay(
    mode: str, algorithm: str, more: tuple[str, ...], head: int, dpeer: Callable[..., Any], tmp_path: Path
) -> None:
    dpeer(mode, *SHORT, *SAMPLE, "--algorithm", algorithm, *more, "--out", "run").succeed()
    for rank in range(SIZE):
        summary = json.loads((tmp_path / "run" / f"rank-{rank}" / "summary.json").read_text())
        assert summary["head_parameters"] == head
        text = (tmp_path / "run" / f"rank-{rank}" / "metrics.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["privacy"]["steps"] for line in lines] == [STEPS * (number + 1) for number in range(ROUNDS)]
        assert all(line["train_loss"] < 5 for line in lines)


def test_a_preset_does_with_few_rounds(dpeer: Callable[..., Any]) -> None:
    few = ("--size", 4, "--task", "digits", "--rounds", 1, "--local-steps", 1, "--out", "run")
    message = " ".join(dpeer("simulate", "--preset", "dp-fedadamw", *few).succeed().split())
    assert "fedadamw on digits" in message
    assert "optimizer adamw, lr-schedule cosine" in message
    assert "gamma 0.5" in message
