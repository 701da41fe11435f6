"""A task from a file of arrays by site: `x_R`, `y_R` to train on and `test_x_R`, `test_y_R`, R being the rank."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank: int, size: int, seed: int, *, path: str = "sites.npz") -> Task:
    """A multilayer perceptron for rows of numbers, or a small convolutional net for series of shape (channels, time).

    Args:
        rank: The site.
        size: Unused.
        seed: Of the first weights.
        path: The file.
    """
    with np.load(path) as file:
        parts = [torch.from_numpy(file[f"{part}_{rank}"]) for part in ("x", "y", "test_x", "test_y")]
        classes = int(file["classes"])
    torch.manual_seed(seed)
    inputs = parts[0].shape[1]
    if parts[0].dim() == 2:
        model = nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, classes))
    else:
        model = nn.Sequential(
            nn.Conv1d(inputs, 16, 7, stride=2), nn.ReLU(), nn.Conv1d(16, 32, 7, stride=2), nn.ReLU(),
            nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(128, classes),
        )  # fmt: skip
    head = (str(len(model) - 1),)
    return Task(model=model, head=head, train=TensorDataset(*parts[:2]), test=TensorDataset(*parts[2:]))
