"""Handwritten digits: real data that comes with scikit-learn, and a CNN that trains in seconds on one core.

1797 images of 8x8 pixels by 43 writers (Alpaydin and Kaynak, UCI Optical Recognition of Handwritten Digits).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from dpeer.training.partitions import partition_pools
from dpeer.training.task import Task

_TEST_SHARE = 0.2
_POOL_SEED = 0  # the test pool is the same whatever the federation's seed, so that runs can be compared


class DigitsNet(nn.Module):
    """Three convolutions with GroupNorm (14,208 parameters), and a linear head (1,290).

    Input (batch, 1, 8, 8), output (batch, 10).
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.GroupNorm(4, 32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, stride=2, padding=1),
            nn.GroupNorm(4, 32),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores."""
        scores: Tensor = self.head(self.features(images))
        return scores


def task(rank: int, size: int, seed: int, *, partition: str) -> Task:
    """The part of the digits that a rank holds.

    Args:
        rank: This peer.
        size: Number of peers.
        seed: Decides who holds what, and the model's first weights.
        partition: How training and test pool (a fixed stratified fifth) are divided.
    """
    model = DigitsNet()
    train, test = _pools()
    train_parts, test_parts = partition_pools(train.tensors[1], test.tensors[1], size, partition, seed)
    return Task(
        model=model,
        head=("head",),
        train=Subset(train, train_parts[rank].tolist()),
        test=Subset(test, test_parts[rank].tolist()),
    )


@cache
def _pools() -> tuple[TensorDataset, TensorDataset]:
    """Training and test pool; images in 0..1."""
    from sklearn.datasets import load_digits  # over a second to import: only for those who use this task

    pixels, digits = load_digits(return_X_y=True)
    images = torch.from_numpy((pixels / 16).astype(np.float32)).view(-1, 1, 8, 8)
    labels = torch.from_numpy(digits.astype(np.int64))
    rng = np.random.default_rng(_POOL_SEED)
    test = np.zeros(len(digits), dtype=bool)
    for digit in range(10):
        members = np.flatnonzero(digits == digit)
        test[rng.permutation(members)[: round(_TEST_SHARE * len(members))]] = True
    chosen = torch.from_numpy(test)
    return TensorDataset(images[~chosen], labels[~chosen]), TensorDataset(images[chosen], labels[chosen])
