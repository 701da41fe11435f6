"""Losses that torch broadcasts to a table of all pairs are refused, and others of the same shapes are not."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
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
    with pytest.raises(TaskError, match=rf"each output with all targets: .*give targets as {advice}") as caught:
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


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Linear(6, 4), nn.Linear(4, 1)
        nn.init.zeros_(self.fc.weight)  # at first all outputs are alike

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(self.body(x))
        return out


def test_it_shows_in_the_first_minibatch(make_task: Callable[..., Task]) -> None:
    def learner(loss: Any) -> TorchLearner:
        data = TensorDataset(torch.randn(20, 6), torch.randn(20))
        task = make_task(model=Regression(), train=data, test=data, loss=loss)
        return build_learner(task, "dfedmdc", Hyperparameters(batch_size=8), rank=0, seed=0)

    with pytest.raises(TaskError, match=r"outputs have shape \(8, 1\) and the targets \(8,\)"):
        learner(absolute).train(0)
    assert learner(squeezed).train(0) is not None
