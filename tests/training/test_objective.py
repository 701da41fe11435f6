"""Weights of classes: how large they are, and that they steer the local loss and nothing else."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.batch_loader import Batches, batch_order
from dpeer.training.objective import balanced, counted


def rare(rows: int = 60, positives: int = 6, classes: int = 2) -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    targets = (torch.arange(rows) < positives).long()
    return TensorDataset(torch.randn(rows, 4, generator=generator) + targets[:, None], targets)


def learner(class_weights: str, *, algorithm: str = "local", outputs: int = 2, **changes: Any) -> TorchLearner:
    torch.manual_seed(0)
    data = rare()
    task = Task(
        **({"model": nn.Sequential(nn.Linear(4, outputs)), "head": ("0",), "train": data, "test": data} | changes)
    )
    h = Hyperparameters(class_weights=class_weights, momentum=0.0, body_lr=0.1, body_epochs=1, batch_size=20)
    return build_learner(task, algorithm, h, rank=0, seed=0)


def test_weights_are_those_of_scikit_learn() -> None:
    targets = np.repeat([0, 1, 3], [50, 7, 3])
    expected = compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=targets)
    found = balanced(torch.from_numpy(np.bincount(targets)))
    assert found[[0, 1, 3]].tolist() == pytest.approx(expected.tolist())
    assert found[2] == 1.0
    assert found.dtype == torch.float32


def test_a_round_is_the_one_that_torch_makes_with_these_weights() -> None:
    ours = learner("balanced", outputs=3)  # a class more than this peer has
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 3))
    weight = torch.tensor([60 / (2 * 54), 60 / (2 * 6), 1.0])
    inputs, targets = rare().tensors
    for rows in batch_order(60, 0, 0, 0, "model", 0).split(20):
        loss = nn.CrossEntropyLoss(weight=weight)(plain(inputs[rows]), targets[rows])
        grads = torch.autograd.grad(loss, list(plain.parameters()))
        with torch.no_grad():
            for parameter, grad in zip(plain.parameters(), grads, strict=True):
                parameter -= 0.1 * grad
    ours.train(0)
    for one, other in zip(ours.trainer.module.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_the_reported_loss_has_no_weights() -> None:
    inputs, targets = rare().tensors
    for class_weights in ("none", "balanced"):
        ours = learner(class_weights)
        expected = nn.functional.cross_entropy(ours.trainer.module(inputs), targets).item()
        assert ours.evaluate().test_loss == pytest.approx(expected)


def test_targets_that_do_not_count_are_not_counted() -> None:
    data = TensorDataset(torch.zeros(5, 1), torch.tensor([0, -100, 2, 2, 0]))
    assert counted(Batches("train", data, None), "this").tolist() == [2, 0, 2]
