"""Tasks of the sites: a table or sensor signals in unequal shares, with a delay a row that sets a site's pace.

Rows of a site do not depend on the number of sites, so one that joins later brings rows of its own.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task

SHARES = (9, 7, 6, 5, 4, 3, 3, 2, 4)
"""How much of the data each site has; the ninth is the one that may join."""


class Paused(TensorDataset):
    """Rows of which each takes a while to fetch: a round of training takes as long on any machine."""

    def __init__(self, pause: float, *tensors: torch.Tensor) -> None:
        super().__init__(*tensors)
        self._pause, self._due = pause, 0.0

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        self._due += self._pause
        if self._due > 0.005:  # the system's sleeps are no shorter
            began = time.monotonic()
            time.sleep(self._due)
            self._due -= time.monotonic() - began
        return tuple(tensor[index] for tensor in self.tensors)


class Network(nn.Module):
    """A body with one head."""

    def __init__(self, body: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(width, classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """One score for each class."""
        scores: torch.Tensor = self.head(self.body(inputs))
        return scores


def table(rank: int, size: int, seed: int, pace: float = 0.0, slow: float = 1.0) -> Task:
    """Breast cancer Wisconsin, which scikit-learn brings: 569 rows of 30 numbers, two classes.

    Args:
        rank: The site.
        size: The number of sites, which does not matter here.
        seed: Of the first weights.
        pace: Seconds that a round takes at least.
        slow: How many times longer it takes at this site.
    """
    torch.manual_seed(seed)
    rows, target = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(rows))
    bounds = np.cumsum((0, *SHARES)) * len(rows) // sum(SHARES)
    own = order[bounds[rank] : bounds[rank + 1]]
    numbers = (rows[own] - rows.mean(axis=0)) / rows.std(axis=0)
    x, y = torch.tensor(numbers, dtype=torch.float32), torch.tensor(target[own])
    body = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
    return _task(Network(body, 32, 2), x, y, len(own) // 4, pace * slow)


@cache
def _signals(data: str) -> dict[str, np.ndarray]:
    with np.load(data) as found:
        return {name: found[name] for name in ("x", "y", "subject")}


def har(rank: int, size: int, seed: int, data: str, pace: float = 0.0, slow: float = 1.0) -> Task:
    """Activities of persons from a telephone's sensors; a site has whole persons, and tests on the last of each.

    Args:
        rank: The site.
        size: The number of sites, which does not matter here.
        seed: Of the first weights.
        data: An npz file with x (windows, 128, 9), y (0 to 5) and subject.
        pace: Seconds that a round takes at least.
        slow: How many times longer it takes at this site.
    """
    torch.manual_seed(seed)
    found = _signals(data)
    persons = np.unique(found["subject"])
    bounds = np.cumsum((0, *SHARES)) * len(persons) // sum(SHARES)
    own = persons[bounds[rank] : bounds[rank + 1]]
    # A person's windows come activity by activity, and overlap by half.
    each = [(found["subject"] == person) & (found["y"] == activity) for person in own for activity in range(6)]
    where = [np.flatnonzero(windows)[::2] for windows in each]
    rest = [part[: len(part) * 3 // 4] for part in where]
    kept = np.concatenate([*[part[len(part) * 3 // 4 :] for part in where], *rest])  # tested ones in front
    x = torch.tensor(np.asarray(found["x"][kept], dtype=np.float32)).transpose(1, 2).contiguous()
    y = torch.tensor(found["y"][kept].astype(np.int64))
    body = nn.Sequential(
        nn.Conv1d(9, 32, 7, stride=2), nn.ReLU(), nn.Conv1d(32, 64, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
    )  # fmt: skip
    return _task(Network(body, 64, 6), x, y, len(kept) - sum(map(len, rest)), pace * slow)


def _task(model: nn.Module, x: torch.Tensor, y: torch.Tensor, tested: int, pace: float) -> Task:
    pause = pace / (3 * (len(x) - tested))  # three epochs a round
    train = Paused(pause, x[tested:], y[tested:]) if pace else TensorDataset(x[tested:], y[tested:])
    return Task(model=model, head=("head",), train=train, test=TensorDataset(x[:tested], y[:tested]))
