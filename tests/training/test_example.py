"""The example that newcomers copy."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpeer.exceptions import TaskError
from dpeer.training import build_learner, load_task

EXAMPLE = Path(__file__).parents[2] / "examples" / "bring_your_own_task.py"
SPEC = f"{EXAMPLE}:task"


def test_it_learns(gossip: Callable[..., None]) -> None:
    assert importlib.util.find_spec("sklearn")
    learners = [build_learner(load_task(SPEC, rank, 4, 0), "dfedmdc", rank=rank, seed=0) for rank in range(4)]
    assert len({learner.digest for learner in learners}) == 1
    gossip(learners, 10)
    assert np.mean([learner.evaluate().accuracy for learner in learners]) > 0.9


def test_it_reads_own_files(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 6))
    rows[:, -1] = rows[:, -1] > 0
    np.savetxt(tmp_path / "hospital-1.csv", rows, delimiter=",")
    task = load_task(SPEC, 1, 2, 0, {"data": str(tmp_path)})
    assert (len(task.train), len(task.test)) == (16, 4)
    with pytest.raises(TaskError):
        load_task(SPEC, 0, 2, 0, {"data": str(tmp_path)})
