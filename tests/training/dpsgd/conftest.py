"""Trainers of small models of every kind, and per-example gradients by a loop that anyone would write."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, Trainer
from dpeer.training.dpsgd.backends import UnsupportedModel, one_by_one, vectorized
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
    rows, trained = [], [parameter for parameter in model.parameters() if parameter.requires_grad]
    for x, y in zip(inputs, targets, strict=True):
        found = torch.autograd.grad(loss(model(x[None]), y[None]).reshape(()), trained, allow_unused=True)
        dense = [torch.zeros_like(p) if g is None else g.to_dense() for g, p in zip(found, trained, strict=True)]
        rows.append(torch.cat([one.reshape(-1) for one in dense]))
    return torch.stack(rows)


def assert_those_of_a_loop(peer: Trainer, x: Tensor, y: Tensor, quickest: str, within: float = 1e-4) -> None:
    """Each backend gives the loop's gradients; those before the quickest that suits may refuse the model."""
    expected, names, count = by_a_loop(peer.module, x, y), [*BACKENDS], len(x)
    assert (expected.norm(dim=0) > 0).float().mean() > 0.25, "there is something to compare"
    weights, each = torch.rand(2, count), torch.eye(count)
    for name, backend in BACKENDS.items():
        with peer.training(peer.model):
            try:
                found = backend(peer, peer.model, x, y, count)
            except UnsupportedModel:
                assert names.index(name) < names.index(quickest)
                continue
        torch.testing.assert_close(found.sums(each), expected, rtol=within, atol=1e-5)
        torch.testing.assert_close(found.norms().float(), expected.norm(dim=1), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found.sums(weights), weights @ expected, rtol=within, atol=1e-5)
        losses = torch.stack([cross_entropy(peer.module(a[None]), b[None]) for a, b in zip(x, y, strict=True)])
        torch.testing.assert_close(found.losses, losses.detach(), rtol=1e-5, atol=1e-6)
        found.drop(torch.arange(count) % 2 == 0)
        torch.testing.assert_close(found.sums(each)[1::2], expected[1::2], rtol=within, atol=1e-5)
        assert not found.sums(each)[::2].any()
