"""All peers are resumed, and one of them has an older folder than the others: it catches up."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import SMALL_TASK

PATIENT_TASK = f"""
import time
from pathlib import Path
{SMALL_TASK}

def completed(rank):
    lines = Path(f"run/rank-{{rank}}/metrics.jsonl")
    return len(lines.read_text().splitlines()) if lines.exists() else 0


class Patient(Net):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank

    def forward(self, x):
        while self.training and self.rank != 2 and 8 <= completed(self.rank) > completed(2) + 1:
            time.sleep(0.005)
        return super().forward(x)


def patient(rank, size, seed):
    found = task(rank, size, seed)
    torch.manual_seed(seed)
    found.model = Patient(rank)
    return found
"""
"""Training that takes longer than to sit a round out: from the ninth round on until rank 2 is at most one behind."""


def test_a_peer_with_an_older_folder_sits_out_what_it_missed(dpeer: Callable[..., Any], small_task: Path) -> None:
    small_task.write_text(PATIENT_TASK)
    options = ("simulate", "--size", 4, "--task", "mine.py:patient", "--body-epochs", 1, "--threads", 4)
    options = (*options, "--privacy", "client")
    options = (*options, "--noise-multiplier", 4, "--alone", "never", "--out", "run")
    assert dpeer(*options, "--rounds", 2).code == 0
    shutil.copytree("run/rank-2", "older")
    assert dpeer(*options, "--rounds", 6, "--resume").code == 0
    shutil.rmtree("run/rank-2")
    Path("older").rename("run/rank-2")
    found = dpeer(*options, "--rounds", 20, "--resume")
    assert found.code == 0, found.complaints
    lines = [json.loads(one) for one in Path("run/rank-2/metrics.jsonl").read_text().splitlines()]
    assert [one["round"] for one in lines] == list(range(20))
    missed = [one["round"] for one in lines if not one["active"]]
    assert missed == list(range(2, 2 + len(missed)))
    back = 2 + len(missed)  # the others' rounds go on meanwhile
    assert 6 <= back < 20
    assert all(one["heard"] == [1, 3] for one in lines[back:])
    assert [one["privacy"]["releases"] for one in lines] == [1, 2] + [2] * len(missed) + list(range(3, 23 - back))
    assert json.loads(Path("run/rank-2/summary.json").read_text())["left_behind"] == len(missed)
