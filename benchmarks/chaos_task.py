"""Task of `chaos`: handwritten digits, with one test set of 359 rows that all peers share."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task, partition


class Network(nn.Module):
    """Two convolutions and a classifier, for images of 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(512, 64), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Ten scores for each image."""
        scores: torch.Tensor = self.head(self.body(images))
        return scores


def task(rank: int, size: int, seed: int, shares: str = "iid") -> Task:
    """A share of four fifths to train with, and the other fifth to test on.

    Args:
        rank: The peer.
        size: The number of peers.
        seed: Of shares and first weights.
        shares: A partition by label, as `dpeer.training.partition` names them.
    """
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(7).permutation(len(labels))
    test, train = np.split(order, [len(order) // 5])
    own = train[partition(labels[train], size, shares, seed, minimum=20)[rank]]

    def images(rows: np.ndarray) -> TensorDataset:
        scaled = torch.tensor(pixels[rows] / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
        return TensorDataset(scaled, torch.tensor(labels[rows]))

    return Task(model=Network(), head=("head",), train=images(own), test=images(test))
