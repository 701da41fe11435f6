"""Peers with two linear layers and other data each, whose gradient numpy can compute, too."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner

Vector = NDArray[np.float64]

SIZE, STEPS = 4, 3
SHAPES = [(4, 6), (4,), (3, 4), (3,)]
"""Weight and bias of the body, then of the head: two linear layers."""
COUNT = sum(int(np.prod(shape)) for shape in SHAPES)
BODY = 4 * 6 + 4
DECAY = 0.9
RING = np.zeros((SIZE, SIZE))
for _i in range(SIZE):
    for _j in (_i - 1, _i, _i + 1):
        RING[_i, _j % SIZE] = 1 / 3
FULL = np.full((SIZE, SIZE), 1 / SIZE)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.body(x))
        return result


def data(rank: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(rank)
    labels = rng.integers(0, 3, 20)
    return rng.normal(size=(20, 6)) + np.eye(3, 6)[labels] * 2 + rank / 2, labels


def task(rank: int, head: tuple[str, ...]) -> Task:
    torch.manual_seed(7)
    inputs, labels = data(rank)
    samples = TensorDataset(torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels))
    return Task(model=Two(), head=head, train=samples, test=samples)


def begin() -> Vector:
    torch.manual_seed(7)
    return np.concatenate([p.detach().double().numpy().ravel() for p in Two().parameters()])


def gradient(values: Vector, rank: int) -> Vector:
    """Of the mean cross-entropy over all samples of a peer, by hand."""
    x, labels = data(rank)
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES])[:-1]
    w, b, u, c = (part.reshape(shape) for part, shape in zip(np.split(values, ends), SHAPES, strict=True))
    hidden = x @ w.T + b
    scores = hidden @ u.T + c
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    outer = (chances - np.eye(3)[labels]) / len(labels)
    inner = outer @ u
    return np.concatenate([(inner.T @ x).ravel(), inner.sum(axis=0), (outer.T @ hidden).ravel(), outer.sum(axis=0)])


def peers(algorithm: str, head: tuple[str, ...] = ("head",), **more: Any) -> list[TorchLearner]:
    options = more.pop("options", {})
    values = {
        "body_lr": 0.1, "momentum": 0.0, "lr_decay": DECAY, "local_steps": STEPS, "batch_size": 20, "grad_clip": None,
    }  # fmt: skip
    h = Hyperparameters(**values | more)
    return [build_learner(task(rank, head), algorithm, h, rank=rank, seed=0, options=options) for rank in range(SIZE)]


def models(learners: list[TorchLearner]) -> list[Vector]:
    return [ours.trainer.model.data.double().numpy().copy() for ours in learners]
