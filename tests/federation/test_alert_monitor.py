"""Signs on real runs: none where all is well, and what to try where it is not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DIGITS = ("simulate", "--task", "digits", "--size", 3, "--rounds", 6, "--body-epochs", 1, "--out", "run", "--overwrite")


def warned(ended: Any) -> list[str]:
    return [line for line in ended.err.splitlines() if "; try " in line or "like rank" in line]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dfedavgm", pytest.param("dfedsmdc", marks=pytest.mark.long)])
def test_ordinary_runs_have_none(algorithm: str, dpeer: Callable[..., Any], in_tmp_path: Path) -> None:
    ended = dpeer(*DIGITS, "--algorithm", algorithm)
    assert ended.code == 0
    assert warned(ended) == []
    assert json.loads(Path("run/summary.json").read_text())["warnings"] == {}


@pytest.mark.slow
def test_rates_that_are_too_fast_leave_a_loss_at_guessing_and_are_said_once(
    dpeer: Callable[..., Any], in_tmp_path: Path
) -> None:
    ended = dpeer(*DIGITS, "--algorithm", "dfedavgm", "--body-lr", 2)
    assert ended.code == 0
    message = [line for line in warned(ended) if "nothing is learned" in line]
    assert len(message) == 3
    advice = "; try other --body-lr"
    assert sum("of guessing: nothing is learned" + advice in line for line in message) == 1
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["warnings"] == {"flat": [0, 1, 2], "majority": [0, 1, 2]}
    assert "warned while it ran (flat): ranks 0, 1, 2, see log.jsonl" in ended.out
    log = [json.loads(line) for line in Path("run/rank-1/log.jsonl").read_text().splitlines()]
    assert sum(line["level"] == "warning" and "nothing is learned" in line["message"] for line in log) == 1
