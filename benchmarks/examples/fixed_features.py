"""Tasks of which only a linear layer is trained, on fixed features: little for private noise to drown.

    dpeer simulate --task benchmarks/examples/fixed_features.py:cancer --size 8 ...
    dpeer simulate --task benchmarks/examples/fixed_features.py:har --task-option data=FILE.npz --size 8 ...

The head, which `dfedmdc` and `fedper` keep at home, is the bias: how often each class occurs at this peer. `dfedavgm`
shares it with the weights, and `local` trains the same model and shares nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, avg_pool2d
from torch.utils.data import TensorDataset

from dpeer.training import Task, load_task, partition
from dpeer.training.tasks import Choices

HELD_OUT = 0.25
"""The share of the table's rows on which peers are tested."""

HEAD = ("linear.bias",)


class Linear(nn.Module):
    """One linear layer from zero, which is where a convex problem may as well begin.

    Args:
        features: Their number.
        outputs: Number of classes.
    """

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, outputs)
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.bias.zero_()

    def forward(self, features: Tensor) -> Tensor:
        """Class scores, shape (rows, outputs), of features of shape (rows, features)."""
        scores: Tensor = self.linear(features)
        return scores


def of_unit_length(found: Tensor) -> Tensor:
    """Features less each row's own mean, and of length 1: what a row counts follows from the row alone."""
    centred = found - found.mean(1, keepdim=True)
    unit: Tensor = centred / centred.norm(dim=1, keepdim=True).clamp_min(1e-6)
    return unit


def images(inputs: Tensor, filters: int, width: int, cells: int, seed: int = 7) -> Tensor:
    """Random filters over images, positive and negative part, averaged over cells of the image.

    Args:
        inputs: Shape (rows, channels, height, width).
        filters: How many.
        width: Of a filter, in pixels.
        cells: Into how many parts each side of the image is divided.
        seed: Decides the filters.

    Returns:
        Shape (rows, 2 * filters * cells^2).
    """
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(filters, inputs.shape[1], width, width, generator=generator)
    weight -= weight.mean((2, 3), keepdim=True)  # no filter sees how bright an image is
    weight /= weight.flatten(1).norm(dim=1)[:, None, None, None]
    rows = []
    for part in inputs.split(500):
        found = nn.functional.conv2d(part, weight, padding=width // 2)
        both = torch.cat((found.relu(), (-found).relu()), 1)
        rows.append(avg_pool2d(both, found.shape[-1] // cells).flatten(1))
    return torch.cat(rows)


def series(inputs: Tensor, filters: int, width: int = 9, seed: int = 7) -> Tensor:
    """The mean of each channel, and random filters over time, averaged over it: shape (rows, channels + 2 filters).

    Args:
        inputs: Shape (rows, channels, steps).
        filters: How many.
        width: Of a filter, in steps of time.
        seed: Decides the filters.
    """
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(filters, inputs.shape[1], width, generator=generator)
    weight /= weight.flatten(1).norm(dim=1)[:, None, None]
    rows = []
    for part in inputs.split(500):
        found = nn.functional.conv1d(part, weight, padding=width // 2)
        both = torch.cat((found.relu(), (-found).relu()), 1)
        rows.append(torch.cat((part.mean(2), avg_pool1d(both, found.shape[-1]).flatten(1)), 1))
    return torch.cat(rows)


def _fixed(task: Task, features: Callable[[Tensor], Tensor], classes: int) -> Task:
    """The same task on features that are computed once; a fixed first layer would give the same."""

    def found(rows: Any) -> TensorDataset:
        inputs, targets = rows.tensors
        return TensorDataset(of_unit_length(features(inputs)), targets)

    train = found(task.train)
    model = Linear(train.tensors[0].shape[1], classes)
    return Task(
        model=model, head=HEAD, train=train, test=found(task.test), groups=task.groups, division=task.division,
        draws=False,
    )  # fmt: skip


def digits(rank: int, size: int, seed: int, filters: int = 8, partition: str = "dirichlet:0.3") -> Task:
    """scikit-learn's digits."""
    task = load_task("digits", rank, size, seed, {}, Choices(partition=partition))
    return _fixed(task, lambda inputs: images(inputs, filters, 3, 4), 10)


def har(rank: int, size: int, seed: int, data: str, filters: int = 64) -> Task:
    """UCI HAR, whole persons to each peer."""
    task = load_task("har", rank, size, seed, {"data": data}, Choices(partition="subject"))
    return _fixed(task, lambda inputs: series(inputs, filters), 6)


def cifar10(
    rank: int, size: int, seed: int, data: str, samples: int = 4000, filters: int = 32, partition: str = "dirichlet:0.3"
) -> Task:
    """Some of CIFAR-10's images."""
    options = {"data": data, "train_samples": samples, "test_samples": samples // 2}
    task = load_task("cifar10", rank, size, seed, options, Choices(partition=partition))
    return _fixed(task, lambda inputs: images(inputs, filters, 6, 2), 10)


@lru_cache(maxsize=1)
def _cancer() -> tuple[np.ndarray, np.ndarray]:
    table = load_breast_cancer()
    low, high = table.data.min(0), table.data.max(0)  # the data set's description prints them: they are public
    return (2.0 * (table.data - low) / (high - low) - 1.0).astype(np.float32), table.target.astype(np.int64)


def cancer(rank: int, size: int, seed: int, partition: str = "iid") -> Task:
    """scikit-learn's breast cancer: 569 rows of 30 columns, each scaled by the range that its description prints."""
    inputs, targets = _cancer()
    parted = divided(targets, size, partition, seed)
    mine, everyone = parted[rank], hashlib.sha256(b"|".join(rows.tobytes() for rows in parted)).hexdigest()
    held = max(3, round(HELD_OUT * len(mine)))
    parts = [
        TensorDataset(torch.from_numpy(inputs[rows]), torch.from_numpy(targets[rows]))
        for rows in (mine[held:], mine[:held])
    ]
    return Task(
        model=Linear(inputs.shape[1], 2), head=HEAD, train=parts[0], test=parts[1], division=everyone, draws=False
    )


divided = partition
"""`cancer` has an argument of that name."""
