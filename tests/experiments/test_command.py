"""A comparison all of whose runs are there."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpeer.cli.compare import print_compared
from dpeer.experiments import comparison
from dpeer.experiments.cells import Cell
from dpeer.experiments.comparison import Comparison, Unfinished
from dpeer.experiments.experiment import load
from dpeer.experiments.launchers import find_launcher
from tests.experiments.conftest import silent

Write = Callable[..., Path]
HERE = find_launcher("local", 1, Path())
ROWS = ("local", "dfedavgm", "dfedmdc", "dfedsmdc", "dfedsam")


@pytest.fixture
def compared(write_cell: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Compare some rows in one folder, their runs written by hand; returns what was printed last, line by line."""

    def compare(*rows: str) -> str:
        found = load(None, {"size": 2, "rounds": 3}, {"algorithms": list(rows)})
        made = Comparison(found, tmp_path, HERE, silent)
        for variant in found.variants:
            cell = made.cell(variant, "", found.conditions[0], 0)
            if not cell.done:
                write_cell(cell.folder.name, [[0.5] * 3] * 2, algorithm=variant.algorithm)
                cell.claim()
        capsys.readouterr()
        print_compared(made.run())
        return capsys.readouterr().out.lstrip()  # an older rich ends a bar without steps with empty lines

    return compare


def test_runs_of_an_earlier_comparison_are_not_in_its_tables(compared: Callable[..., str], tmp_path: Path) -> None:
    compared(*ROWS)
    compared("local", "dfedmdc", "dfedavgm")
    assert "| dfedsam |" not in (tmp_path / "comparison.md").read_text()
    assert "dfedsam" not in (tmp_path / "peers.csv").read_text()


def test_the_first_lines_name_the_columns_and_local_is_the_reference(compared: Callable[..., str]) -> None:
    lines = compared("dfedmdc", "local").splitlines()
    assert lines[:4] == [
        "1 seed, 3 rounds; means over seeds and peers; one seed has no intervals",
        "every column is of the round or the model that its table's title names",
        "worst peer: the lowest accuracy of a peer, mean over seeds",
        "below local: share of the peers that do worse than they do in local",
    ]
    assert "ring: accuracy after mixing, last round" in lines
    assert [line.split()[-1] for line in lines if line.split()[:1] == ["dfedmdc"]][:2] == ["+0.0000", "+0.0000"]
    assert [line.split()[-1] for line in lines if line.split()[:1] == ["local"]][:2] == ["-", "-"]


def test_json_alone_is_on_stdout(compared: Callable[..., str], dpeer: Callable[..., Any], tmp_path: Path) -> None:
    compared("local", "dfedmdc")  # so that there is nothing to run
    ended = dpeer("compare", "--size", 2, "--rounds", 3, "--algorithms", "local,dfedmdc", "--out", tmp_path, "--json")
    assert (ended.code, ended.complaints) == (0, [])
    message = json.loads(ended.out)
    assert message["files"] == [str(tmp_path / "comparison.md"), str(tmp_path / "peers.csv")]
    assert message["chosen"] == []
    (table,) = message["tables"]
    assert table["condition"] == {"topology": "ring", "partition": None}
    assert table["rows"]["dfedmdc"]["accuracy_mixed"] == {
        "mean": 0.5, "worst_peer": 0.5, "below_baseline": 0.0, "difference": 0.0, "difference_half": None,
    }  # fmt: skip


@pytest.mark.parametrize("grid", [[], ["body-lr=0.01,0.1"]], ids=["runs", "tuning runs"])
def test_shards_make_each_run_once_and_the_tables_are_made_without_one(
    grid: list[str], write_cell: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def run(cells: Sequence[Cell], *others: object) -> bool:
        for cell in cells:
            if not cell.done:
                made.append(str(cell.folder.relative_to(tmp_path)))
                write_cell(made[-1], [[0.5] * 3] * 2)
                cell.claim()
        return True

    monkeypatch.setattr(comparison, "run_cells", run)
    plan = {"algorithms": ["local", "dfedavgm"], "seeds": "0-1", "grid": grid}
    found = load(None, {"size": 2, "rounds": 3}, plan)

    def why(number: int) -> str:
        with pytest.raises(Unfinished) as unfinished:
            Comparison(found, tmp_path, HERE, silent, (number, 3)).run()
        return str(unfinished.value)

    without = "the same command without --shard makes what is missing and prints the tables"
    what = "tuning runs" if grid else "runs"
    assert why(1) == f"shard 1/3: its 2 {what} are done, 2 left to others; {without}"
    assert len(made) == 2
    assert why(2) == f"shard 2/3: its 1 {what} are done, 1 left to others; {without}"
    last = why(3)
    if grid:  # values are chosen, so its share of the runs follows
        assert last == f"shard 3/3: its 1 runs are done, 3 left to others; {without}"
    else:
        assert last == f"all runs are done; {without}"
    assert len({*made}) == len(made) == 4 + bool(grid)
    Comparison(found, tmp_path, HERE, silent).run()  # makes what is missing
    assert len({*made}) == len(made) == (8 if grid else 4)
