"""The lines that `dpeer start` ends with."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpeer.cli.start import last_line, print_end
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
        print_end(Outcome("done", 3, {}, {}), Settings(out=tmp_path), 1, terminal, as_json=False)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"dpeer: no comparison with local only: no time; dpeer worth {folder} makes it later"


@pytest.mark.parametrize(
    ("summary", "shares", "figures"),
    [
        ({"accuracy": 0.5, "metrics": {"dice": 0.25, "r2": None}}, True, ", accuracy 0.5000, dice 0.2500"),
        ({"accuracy": None, "metrics": {"mae": 1.25, "r2": 0.5}}, True, ", MAE 1.2500, R2 0.5000"),
        ({"accuracy": 0.5, "rounds_mixed": 1}, True, "; bodies mixed in 1 of them, accuracy 0.5000"),
        ({"accuracy": 0.5, "rounds_mixed": 3}, True, ", accuracy 0.5000"),
        ({"accuracy": 0.5, "rounds_mixed": 0}, False, ", accuracy 0.5000"),
    ],
)
def test_the_figures_are_those_of_the_kept_model_alone(summary: dict[str, Any], shares: bool, figures: str) -> None:
    last_round = {"accuracy": 0.75, "accuracy_finished": 0.8, "metrics": {"accuracy": 0.75, "dice": 0.125}}
    found = last_line(Outcome("done", 3, last_round, {}), 3, Path("run"), summary, shares=shares)
    assert found == f"dpeer: done after 3 rounds{figures}; files in run"


def test_a_neighbor_that_came_back_is_not_lost() -> None:
    outcome = Outcome("done", 3, {}, {1: "did not appear", 2: "silent for 6 s"}, back=frozenset({1}))
    found = last_line(outcome, 3, Path("run"), {}, shares=True)
    assert "; rounds without rank 1 (did not appear), which came back; lost rank 2 (silent for 6 s);" in found


def test_a_peer_that_is_done_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome, settings = Outcome("done", 3, None, {}), Settings(out=tmp_path)
    with Terminal() as terminal:
        assert print_end(outcome, settings, 0, terminal, as_json=False) == 0
    assert capsys.readouterr().err == f"dpeer: done after 3 rounds; files in {tmp_path / 'rank-0'}\n"
