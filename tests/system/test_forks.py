"""Tasks that fork: a pool that ends its workers with SIGTERM is no request to stop the run."""

import pytest

from tests.thinning import only

pytestmark = pytest.mark.slow

TASK = """
import multiprocessing
import os
import signal
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank, size, seed):
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))
    ended = []
    for _ in range(3):
        child = os.fork()
        if not child:
            time.sleep(20)
            os._exit(0)
        os.kill(child, signal.SIGTERM)  # most likely before anything else has run in it
        ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert ended == [-signal.SIGTERM] * 3, ended
    with multiprocessing.get_context("fork").Pool(2) as pool:
        values = pool.map(float, range(48))
    x = torch.tensor(values).reshape(-1, 4)
    data = TensorDataset(x / 48, torch.arange(len(x)) % 2)
    return Task(model=model, head=("1",), train=data, test=data)
"""


@pytest.mark.parametrize("mode", only(["cluster"], ["simulate", "cluster"]))
def test_a_task_may_end_processes_that_it_has_forked(tmp_path, dpeer_command, mode):
    (tmp_path / "mine.py").write_text(TASK)
    message = dpeer_command(mode, "--size", 2, "--task", "mine.py:task", "--rounds", 1, "--out", "run").succeed()
    assert "stopped" not in message
    assert (tmp_path / "run" / "rank-1" / "model.safetensors").is_file()
