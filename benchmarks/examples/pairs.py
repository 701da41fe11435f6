"""A task of 100 classes from two handwritten digits side by side, of which each peer has ten (`data=FILE.npz`)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import TensorDataset

from dpeer.training import Task, build_model

CLASSES = 10
"""Of the 100, for each peer."""


def task(rank: int, size: int, seed: int, *, data: str, train: int = 600, test: int = 300) -> Task:
    """The CNN, and this peer's own images of 28 x 56 pixels.

    Args:
        rank: The peer.
        size: Unused.
        seed: Of the classes, the images and the first weights.
        data: MNIST with the arrays `x_train`, `y_train`, `x_test`, `y_test`.
        train: How many images it trains on.
        test: How many it is tested on.
    """
    rng = np.random.default_rng((seed, rank))
    classes = rng.choice(100, CLASSES, replace=False)
    with np.load(data) as file:
        parts = [
            _drawn(file[f"x_{name}"], file[f"y_{name}"], classes, count, rng)
            for name, count in (("train", train), ("test", test))
        ]
    torch.manual_seed(seed)
    model = build_model("cnn", (1, 28, 56), 100, {})
    head = [name for name, child in model.named_children() if any(True for _ in child.parameters())][-1:]
    return Task(model=model, head=tuple(head), train=parts[0], test=parts[1])


def _drawn(
    images: NDArray[np.uint8], labels: NDArray[np.integer], classes: NDArray[np.integer], count: int,
    rng: np.random.Generator,
) -> TensorDataset:  # fmt: skip
    """So many images of these classes, in equal numbers."""
    y = np.resize(classes, count)
    digits = [np.flatnonzero(labels == digit) for digit in range(10)]
    halves = [np.stack([images[rng.choice(digits[digit])] for digit in part]) for part in (y // 10, y % 10)]
    x = np.concatenate([half.reshape(count, 28, 28) for half in halves], axis=2)
    return TensorDataset(torch.from_numpy(x).float().unsqueeze(1) / 255.0, torch.from_numpy(y.astype(np.int64)))
