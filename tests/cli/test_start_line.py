"""The lines that `dpeer start` ends with."""

import json
from pathlib import Path

import pytest

from dpeer.cli.start import _ended, _last_line
from dpeer.cli.terminal import Terminal
from dpeer.federation.settings import Settings
from dpeer.peer import Outcome
from dpeer.results.worth import as_entry


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
    assert last == f"dpeer: no comparison with this peer alone: no time; dpeer worth {folder} makes it later"


def test_a_tasks_own_metrics_stand_in_it() -> None:
    last = {"accuracy": 0.5, "metrics": {"accuracy": 0.5, "dice": 0.25, "r2": None}, "privacy": None}
    line = _last_line(Outcome("done", 3, last, {}), 3, Path("run/rank-0"))
    assert line == "dpeer: done after 3 rounds, accuracy 0.5000, dice 0.2500; files in run/rank-0"


def test_a_regression_has_its_errors() -> None:
    last = {"accuracy": None, "metrics": {"mae": 1.25, "r2": 0.5}, "privacy": None}
    line = _last_line(Outcome("done", 3, last, {}), 3, Path("run"))
    assert line == "dpeer: done after 3 rounds, MAE 1.2500, R2 0.5000; files in run"
