"""The lines that `dpeer start` ends with."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpeer.cli.start import _ended, _last_line
from dpeer.cli.terminal import Terminal
from dpeer.federation.settings import Settings
from dpeer.peer import Outcome
from dpeer.results.effect import as_entry


def test_without_a_comparison_the_last_one_names_the_command_that_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "rank-1"
    folder.mkdir()
    worth = as_entry(measure="accuracy", on="test", rows=9, joined=0.5, rounds=2, planned=3, why="no time")
    (folder / "summary.json").write_text(json.dumps({"worth": worth}))
    with Terminal() as terminal:
        _ended(Outcome("done", 3, {}, {}), Settings(out=tmp_path), 1, terminal, as_json=False)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"dpeer: no comparison with local only: no time; dpeer worth {folder} makes it later"


def line(summary: dict[str, Any], last: dict[str, Any] | None = None, *, shares: bool = True) -> str:
    return _last_line(Outcome("done", 3, last or {}, {}), 3, Path("run"), summary, shares=shares)


def test_a_tasks_own_metrics_stand_in_it() -> None:
    summary = {"accuracy": 0.5, "metrics": {"accuracy": 0.5, "dice": 0.25, "r2": None}}
    assert line(summary) == "dpeer: done after 3 rounds, accuracy 0.5000, dice 0.2500; files in run"


def test_a_regression_has_its_errors() -> None:
    summary = {"accuracy": None, "metrics": {"mae": 1.25, "r2": 0.5}}
    assert line(summary) == "dpeer: done after 3 rounds, MAE 1.2500, R2 0.5000; files in run"


def test_its_figures_are_those_of_the_kept_model_alone() -> None:
    """Whatever the last round's were, and the finished model's."""
    last = {"accuracy": 0.75, "accuracy_finished": 0.8, "metrics": {"accuracy": 0.75, "dice": 0.125}}
    summary = {"accuracy": 0.5, "accuracy_mixed": 0.75, "metrics": {"accuracy": 0.5, "dice": 0.25}}
    assert line(summary, last) == "dpeer: done after 3 rounds, accuracy 0.5000, dice 0.2500; files in run"


def test_it_says_in_how_many_rounds_bodies_were_mixed() -> None:
    assert "3 rounds; bodies mixed in 1 of them, accuracy" in line({"accuracy": 0.5, "rounds_mixed": 1})
    assert "mixed" not in line({"accuracy": 0.5, "rounds_mixed": 3})
    assert "mixed" not in line({"accuracy": 0.5, "rounds_mixed": 0}, shares=False)
