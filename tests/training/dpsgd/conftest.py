"""Trainers of small models of every kind, and per-example gradients by a loop that anyone would write."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, Trainer
from dpeer.training.dpsgd.backends import one_by_one, vectorized
from dpeer.training.dpsgd.by_layers import by_layers
from dpeer.training.split import split

Make = Callable[..., Trainer]

BACKENDS = {"layers": by_layers, "vectorized": vectorized, "one-by-one": one_by_one}
"""The quickest first."""


@pytest.fixture
def make_trainer() -> Make:
    """A trainer of all parameters of a model on such data."""

    def make(model: nn.Module, inputs: Any, targets: Tensor, **changes: Any) -> Trainer:
        data = changes.pop("data", None) or TensorDataset(inputs, targets)
        h = Hyperparameters(**changes.pop("hyperparameters", {}))
        head = changes.pop("head", ())
        task = Task(model=model, head=head, train=data, test=data, **changes)
        return Trainer(task, split(model, head, "body" if head else "model"), h, rank=0, seed=0)

    return make


def by_a_loop(model: nn.Module, inputs: Tensor, targets: Tensor, loss: Any = cross_entropy) -> Tensor:
    """The gradient of each example by itself, in the order of the model's parameters, shape (examples, parameters)."""
    rows = []
    for x, y in zip(inputs, targets, strict=True):
        value = loss(model(x[None]), y[None])
        found = torch.autograd.grad(value.reshape(()), list(model.parameters()), allow_unused=True)
        rows.append(
            torch.cat(
                [
                    (torch.zeros_like(p) if g is None else g.to_dense()).reshape(-1)
                    for g, p in zip(found, model.parameters(), strict=True)
                ]
            )
        )
    return torch.stack(rows)
