"""What a comparison says when all of its runs are there."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from dpeer.cli.comparing import ProgressLines, print_compared
from dpeer.experiments.comparison import Comparison
from dpeer.experiments.experiment import load

Write = Callable[..., Path]
ROWS = ("local", "dfedavgm", "dfedmdc", "dfedsmdc", "dfedsam")


@pytest.fixture
def compared(write_cell: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Compare some rows in one folder, their runs written by hand; returns what was printed last, line by line."""

    def compare(*rows: str) -> str:
        found = load(None, {"size": 2, "rounds": 3}, {"algorithms": list(rows)}, small=False)
        made = Comparison(found, tmp_path, 1, ProgressLines(tmp_path, Console()))
        for variant in found.variants:
            cell = made._cell(variant, "", found.conditions[0], 0)
            if not cell.done:
                write_cell(cell.folder.name, [[0.5] * 3] * 2, algorithm=variant.algorithm)
                cell.claim()
        capsys.readouterr()
        compared = made.run()
        assert compared is not None
        print_compared(compared)
        return capsys.readouterr().out

    return compare


def test_what_an_earlier_comparison_ran_and_this_one_does_not_show_is_said(
    compared: Callable[..., str], tmp_path: Path
) -> None:
    assert "not in these tables" not in compared(*ROWS)
    *_, line = compared("local", "dfedmdc", "dfedavgm").splitlines()
    assert line == (
        f"not in these tables, but still in {tmp_path}: 2 runs of earlier comparisons (dfedsam-ring-default-seed0, "
        "dfedsmdc-ring-default-seed0)"
    )
    assert "| dfedsam |" not in (tmp_path / "comparison.md").read_text()
    assert "dfedsam" not in (tmp_path / "peers.csv").read_text()
    *_, line = compared("local").splitlines()
    assert line.endswith(": 4 runs of earlier comparisons (" + ", ".join(
        f"{row}-ring-default-seed0" for row in ("dfedavgm", "dfedmdc", "dfedsam")
    ) + ", ...)")  # fmt: skip
    *_, line = compared(*ROWS[:4]).splitlines()
    assert ": 1 run of earlier comparisons (dfedsam-" in line
    assert compared(*ROWS).splitlines()[-1].startswith("tables ")
    assert "| dfedsam |" in (tmp_path / "comparison.md").read_text()


def test_folders_without_a_run_and_those_of_others_are_not_counted(
    compared: Callable[..., str], write_cell: Write, tmp_path: Path
) -> None:
    write_cell("by-hand", [[0.5] * 3] * 2)
    (tmp_path / "mistyped").mkdir()
    (tmp_path / "mistyped" / "cell.json").write_text("{}")
    assert "not in these tables" not in compared("local", "dfedmdc")
