"""The server from which peers' processes are forked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STARTS = """
from dpeer.federation import forking
forking.context()
print("started")
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS spawns")
@pytest.mark.parametrize("before", ["", "import multiprocessing.util as u; u.get_temp_dir()"])
def test_a_folder_for_temporary_files_may_be_long(tmp_path: Path, before: str) -> None:
    folder = tmp_path / ("scratch_of_job_" * 7) / "node"
    folder.mkdir(parents=True)
    ended = subprocess.run(
        [sys.executable, "-c", before + STARTS], env={**os.environ, "TMPDIR": str(folder)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ended.stdout == "started\n", ended.stderr


MINE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank, size, seed):
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    data = TensorDataset(torch.ones(12, 4), torch.arange(12) % 2)
    return Task(model=model, head=("1",), train=data, test=data)
"""

RUN = """
import dpeer
if __name__ == "__main__":
    run = dpeer.run(dpeer.Settings(size=2, rounds=1, task="mine.py:task", out="run"), mode="cluster")
    print(run.summary["status"])
"""


@pytest.mark.slow
def test_a_run_ends_well_where_the_folder_for_temporary_files_is_long(tmp_path: Path) -> None:
    folder = tmp_path / ("scratch_of_job_" * 7) / "node"
    folder.mkdir(parents=True)
    (tmp_path / "mine.py").write_text(MINE)
    ended = subprocess.run(
        [sys.executable, "-c", RUN], cwd=tmp_path, env={**os.environ, "TMPDIR": str(folder)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert ended.stdout == "done\n", ended.stderr
