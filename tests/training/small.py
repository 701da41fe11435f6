"""A small model and its task, for the tests of training/."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


class SmallNet(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.drop = nn.Dropout(dropout) if dropout else nn.Identity()
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.drop(self.body(x)))
        return out


def small_task(rank: int = 0, *, dropout: float = 0.0, samples: int = 50, **changes: Any) -> Task:
    """Three noisy classes in six dimensions, other data on each rank."""
    torch.manual_seed(0)
    model = SmallNet(dropout)
    rng = np.random.default_rng(rank)

    def data(count: int) -> TensorDataset:
        labels = rng.integers(0, 3, count)
        inputs = rng.normal(size=(count, 6)) + np.eye(3, 6)[labels] * 2
        return TensorDataset(torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels))

    settings: dict[str, Any] = {"model": model, "head": ("fc",), "train": data(samples), "test": data(30)}
    return Task(**(settings | changes))
