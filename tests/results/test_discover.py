"""Which runs a folder holds."""

from pathlib import Path

import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.results.files import write_json
from dpeer.results.reading import find_runs


def write_run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    write_json(folder / "summary.json", {"algorithm": "local", "size": 1})
    return folder


def test_runs_are_found_once_and_know_which_folder_they_were_found_in(tmp_path: Path) -> None:
    for name in ("a/cell-10", "a/cell-2", "a/tune/trial", "b/run", "b/run/baseline-local"):
        write_run(tmp_path / name)
    found = find_runs([tmp_path / "a", tmp_path / "b", tmp_path / "a" / "cell-2"])
    assert [(str(run.folder.relative_to(tmp_path)), run.source) for run in found] == [
        ("a/cell-2", 0), ("a/cell-10", 0), ("b/run", 1), ("b/run/baseline-local", 1),
    ]  # fmt: skip


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"holds no run: expected .*summary\.json"):
        find_runs([tmp_path])
    with pytest.raises(ConfigurationError, match="is no folder"):
        find_runs([tmp_path / "nowhere"])
