"""A task of three classes for whole runs, at a pace of the test's, and the words of a command that makes one."""

from collections.abc import Sequence

MODELS = '''
"""A small task of three classes whose dataset can be made slow."""

import os
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from dpeer.training import Task

SAMPLES = 20


class Net(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.body = nn.Linear(5, 12)
        self.drop = nn.Dropout(dropout)
        self.fc = nn.Linear(12, 3)

    def forward(self, x):
        return self.fc(self.drop(torch.relu(self.body(x))))


class Data(Dataset):
    """From sample number `fast` on (over all epochs), each takes `pause` seconds, until a file `hurry` is there.

    A file `pausing-RANK` says that it has come to that.
    """

    def __init__(self, rank, samples, fast=0, pause=0.0):
        rng = np.random.default_rng([rank, samples])
        self.targets = torch.tensor(rng.integers(0, 3, samples))
        noise = rng.normal(size=(samples, 5))
        self.inputs = torch.tensor(noise + 2 * np.eye(3, 5)[self.targets], dtype=torch.float32)
        self.rank, self.fast, self.pause = rank, fast, pause

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        if self.pause:  # otherwise nothing is counted: privacy at sample level refuses data that count
            self.fast -= 1
            if self.fast < 0 and not os.path.exists("hurry"):
                open(f"pausing-{self.rank}", "w").close()
                time.sleep(self.pause)
        return self.inputs[index], self.targets[index]


def task(rank, size, seed, fast=0, pause=0.0, dropout=0.0, slow=None):
    model = Net(dropout)
    print("rank", rank, "has built its model", flush=True)
    if slow is not None and rank != slow:
        pause = 0.0
    return Task(model=model, head=("fc",), train=Data(rank, SAMPLES, fast, pause), test=Data(rank, SAMPLES + 1))
'''

SCHEDULE = ("--body-epochs", "2", "--head-epochs", "1", "--batch-size", "8")
"""60 samples are fetched a round."""

PACED = ("--task-option", "fast=0", "--task-option", "pause=0.005", "--rounds", 5000, "--alone", "never")
"""With `SCHEDULE` a round takes a third of a second, until the test ends."""


def words_of(arguments: Sequence[object]) -> list[str]:
    """A command's words; runs of all peers train nothing alone besides where a test does not ask for it: it takes time.

    That they do so by default tests/cli/test_worth.py shows.
    """
    words = [*map(str, arguments)]
    runs_all = words[:1] in (["cluster"], ["simulate"]) and not {"--alone", "--help"} & {*words}
    return [*words, "--alone", "never"] if runs_all else words
