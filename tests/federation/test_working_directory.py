"""Runs whose tasks change to other folders: results go where the run was started, and paths lead from there."""

import os
from pathlib import Path

import pytest

import dpeer
from dpeer.exceptions import ConfigurationError
from dpeer.federation.folders import working_folder_kept

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
