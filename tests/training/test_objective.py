"""Class weights in the training loss, and the refusal of losses that broadcast outputs on targets."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.batch_loader import Batches, batch_order
from dpeer.training.objective import balanced, check_broadcast, counted


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


# Losses that torch broadcasts to a table of all pairs are refused, and others of the same shapes are not.


COLUMN, ROW = torch.zeros(8, 1), torch.zeros(8)


def absolute(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).abs().mean()


def squeezed(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.mse_loss(outputs.squeeze(1), targets)


def flattened(outputs: Tensor, targets: Tensor) -> Tensor:
    return absolute(outputs.reshape(-1), targets.reshape(-1))


def of_pairs(outputs: Tensor, targets: Tensor) -> Tensor:
    """How often the larger target has not the larger output, softly: what no single example has."""
    gaps = (outputs.reshape(-1, 1) - outputs.reshape(1, -1)) * (targets.reshape(-1, 1) - targets.reshape(1, -1)).sign()
    return functional.softplus(-gaps).mean()


@pytest.mark.parametrize(
    "loss",
    [
        functional.mse_loss, functional.l1_loss, nn.SmoothL1Loss(), nn.HuberLoss(), absolute,
        lambda outputs, targets: (outputs - targets).square().mean(),
        partial(lambda outputs, targets, power: ((outputs - targets).abs() ** power).mean(), power=3),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("outputs", "targets", "advice"), [(COLUMN, ROW, r"\.unsqueeze\(1\)"), (ROW, COLUMN, r"\.squeeze\(1\)")]
)
def test_a_loss_of_all_pairs_is_refused(loss: Any, outputs: Tensor, targets: Tensor, advice: str) -> None:
    with pytest.raises(TaskError) as caught:
        check_broadcast(loss, outputs, targets)
    assert str(tuple(outputs.shape)) in str(caught.value)


@pytest.mark.parametrize(
    ("loss", "outputs", "targets"),
    [
        (squeezed, COLUMN, ROW),
        (flattened, COLUMN, ROW),
        (flattened, ROW, COLUMN),
        (of_pairs, COLUMN, ROW),
        (absolute, COLUMN, COLUMN),
        (absolute, ROW, ROW),
        (functional.binary_cross_entropy_with_logits, COLUMN, ROW),  # which refuses such shapes itself
        (functional.cross_entropy, torch.zeros(8, 3), torch.zeros(8).long()),
        (functional.cross_entropy, torch.zeros(8, 1), torch.zeros(8).long()),
        (lambda outputs, targets: outputs["scores"].mean(), {"scores": COLUMN}, ROW),
        (absolute, torch.zeros(8, 2), torch.zeros(8)),
    ],
)
def test_other_losses_are_taken(loss: Any, outputs: Any, targets: Tensor) -> None:
    check_broadcast(loss, outputs, targets)
