"""Runs whose tasks change to other folders: results go where the run was started, and paths lead from there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dpeer
from dpeer.exceptions import ConfigurationError
from dpeer.federation.folders import working_folder_kept
from tests.thinning import only

TASK = """
import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.fc = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x):
        os.chdir("/")
        return self.fc(self.body(x))


def task(rank, size, seed):
    os.chdir("data")  # which is beside the folder of the run, and not within itself
    x = torch.tensor([float(number) for number in Path("numbers").read_text().split()]).reshape(-1, 4)
    data = TensorDataset(x, torch.arange(len(x)) % 2)
    return Task(model=Net(), head=("fc",), train=data, test=data)
"""

SCRIPT = """
import multiprocessing.util, os, sys
import dpeer
from dpeer.cli import main

if __name__ == "__main__":
    if sys.argv[1] == "early":
        multiprocessing.util.get_temp_dir()
    os.chdir("study")
    for folder in ("one", "two"):
        os.chdir(folder)
        run = dpeer.run(dpeer.Settings(size=2, task="mine.py:task", rounds=1, out="out"), mode="cluster")
        os.chdir("..")
        print(folder, run.summary or dpeer.open_run(os.path.join(folder, "out")).summary["status"])
    os.chdir("one")
    main(["compare", "--size", "2", "--rounds", "1", "--algorithms", "local", "--seeds", "0", "--task", "mine.py:task"])
"""


def study(folder: Path) -> Path:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "numbers").write_text(" ".join(str(number % 7) for number in range(48)))
    (folder / "mine.py").write_text(TASK)
    return folder


def test_a_simulation_writes_where_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = study(tmp_path / "study")
    monkeypatch.chdir(home)
    settings = dpeer.Settings(size=3, task="mine.py:task", rounds=2, out=Path("out"), evaluate_every=1)
    run = dpeer.run(settings)
    assert Path.cwd() == home
    assert run.summary["status"] == "done"
    assert [len(run.metrics(rank)) for rank in range(3)] == [2, 2, 2]
    assert sorted(path.name for path in (home / "out").iterdir()) == [
        "disagreement.jsonl", "rank-0", "rank-1", "rank-2", "summary.json",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "darwin", reason="macOS spawns")
@pytest.mark.parametrize("folder_for_temporary_files", only(["early"], ["early", "late"]))
def test_processes_of_a_script_start_where_it_is_now_also_if_the_folder_for_temporary_files_is_long(
    folder_for_temporary_files: str, tmp_path: Path
) -> None:
    for folder in ("one", "two"):
        study(tmp_path / "study" / folder)
    (tmp_path / "script.py").write_text(SCRIPT)
    temporary = tmp_path / ("scratch_of_job_" * 7) / "node"
    temporary.mkdir(parents=True)
    root = str(Path(dpeer.__file__).parent.parent)
    ended = subprocess.run(
        [sys.executable, "script.py", folder_for_temporary_files], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": root, "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("one done\ntwo done\n"), ended.stderr
    assert (tmp_path / "study" / "one" / "dpeer-compare" / "comparison.md").is_file()


def test_the_folder_is_the_same_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with working_folder_kept() as home:
        os.chdir("/")
    assert home == tmp_path == Path.cwd()


def test_a_deleted_current_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with (
        pytest.raises(ConfigurationError),
        working_folder_kept(),
    ):
        pass
