"""The line that `dpeer start` ends with."""

from pathlib import Path

from dpeer.cli.start import _last_line
from dpeer.peer import Outcome


def test_a_tasks_own_metrics_stand_in_it() -> None:
    last = {"accuracy": 0.5, "metrics": {"accuracy": 0.5, "dice": 0.25, "r2": None}, "privacy": None}
    line = _last_line(Outcome("done", 3, last, {}), 3, Path("run/rank-0"))
    assert line == "dpeer: done after 3 rounds, accuracy 0.5000, dice 0.2500; files in run/rank-0"


def test_a_regression_has_its_errors() -> None:
    last = {"accuracy": None, "metrics": {"mae": 1.25, "r2": 0.5}, "privacy": None}
    line = _last_line(Outcome("done", 3, last, {}), 3, Path("run"))
    assert line == "dpeer: done after 3 rounds, MAE 1.2500, R2 0.5000; files in run"
