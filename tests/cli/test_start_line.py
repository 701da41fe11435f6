"""The lines that `dpeer start` ends with."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from dpeer.cli.start import last_line, print_end
from dpeer.cli.terminal import Terminal
from dpeer.federation.settings import Settings
from dpeer.peer.peer import Outcome
from dpeer.results.effect import Effect


def test_without_a_comparison_the_last_one_names_the_command_that_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "rank-1"
    folder.mkdir()
    worth = asdict(Effect(measure="accuracy", on="test", rows=9, joined=0.5, rounds=2, planned=3, why="no time"))
    (folder / "summary.json").write_text(json.dumps({"worth": worth}))
    with Terminal() as terminal:
        print_end(Outcome("done", 3, {}, {}), Settings(out=tmp_path), 1, terminal, as_json=False)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"dpeer: no comparison with local only: no time; dpeer worth {folder} makes it later"


def test_a_neighbor_that_came_back_is_not_lost() -> None:
    outcome = Outcome("done", 3, {}, {1: "did not appear", 2: "silent for 6 s"}, back=frozenset({1}))
    found = last_line(outcome, 3, Path("run"), {}, shares=True)
    assert "; rounds without rank 1 (did not appear), which came back; lost rank 2 (silent for 6 s);" in found
