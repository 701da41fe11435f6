"""Losses that torch broadcasts to a table of all pairs are refused, and others of the same shapes are not."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeer.exceptions import TaskError
from dpeer.training.objective import check_broadcast

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
