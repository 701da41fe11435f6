"""Figures of single rows, whose mean is the figure of the whole test set."""

from typing import Any

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner

X = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))


def learner(targets: torch.Tensor, outputs: int, **values: Any) -> TorchLearner:
    torch.manual_seed(0)
    data = TensorDataset(X, targets)
    task = Task(model=nn.Sequential(nn.Linear(4, 6), nn.Linear(6, outputs)), head=("1",), train=data, test=data,
                **values)  # fmt: skip
    return build_learner(task, "local", Hyperparameters(body_epochs=1), rank=0, seed=0)


def test_right_and_wrong_answers() -> None:
    made = learner((X[:, 0] > 0).long(), 3)
    made.train(0)
    found, rows = made.rows()
    assert rows is not None
    assert rows.measure == "accuracy"
    with torch.no_grad():
        expected = made.trainer.module(X).argmax(dim=1) == (X[:, 0] > 0).long()
    assert rows.values == tuple(expected.double().tolist())
    assert found == made.evaluate()


@pytest.mark.parametrize("classes", [2, 4])
def test_the_area_under_the_curve_is_scikit_learns(classes: int) -> None:
    targets = (X[:, 0] + X[:, 1] > 0).long() + (X[:, 2] > 0).long() * (classes > 2)  # of four classes the last is empty
    made = learner(targets, classes)
    _, rows = made.rows()
    assert rows is not None
    with torch.no_grad():
        shares = torch.softmax(made.trainer.module(X).double(), dim=1).numpy()
    there = [number for number in range(classes) if (targets == number).any()]
    areas = [roc_auc_score(targets == number, shares[:, number]) for number in there]
    assert rows.auroc == pytest.approx(areas[1] if classes == 2 else sum(areas) / len(areas))


def test_of_one_class_alone_there_is_no_area() -> None:
    _, rows = learner(torch.zeros(300, dtype=torch.long), 2).rows()
    assert rows is not None
    assert rows.auroc is None


@pytest.mark.parametrize("shape", [(300,), (300, 1)])
def test_answers_of_one_logit_with_the_tasks_own_accuracy(shape: tuple[int, ...]) -> None:
    def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        return {"accuracy": float(((outputs.reshape(-1) > 0) == (targets.reshape(-1) > 0.5)).float().mean())}

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return binary_cross_entropy_with_logits(outputs.reshape(-1), targets.reshape(-1))

    found, rows = learner((X[:, 0] > 0).float().reshape(shape), 1, loss=loss, metrics=metrics).rows()
    assert rows is not None
    assert rows.measure == "accuracy"
    assert sum(rows.values) / 300 == pytest.approx(found.accuracy)


def test_an_accuracy_that_means_something_else_leaves_the_losses() -> None:
    found, rows = learner((X[:, 0] > 0).long(), 2, metrics=lambda outputs, targets: {"accuracy": 0.123}).rows()
    assert rows is not None
    assert rows.measure == "test_loss"
    assert sum(rows.values) / 300 == pytest.approx(found.test_loss)


def test_a_regression_has_losses_and_a_constant_to_beat() -> None:
    targets = X[:, :1] * 2 + 1
    made = learner(targets, 1, loss=mse_loss)
    _, rows = made.rows()
    assert rows is not None
    with torch.no_grad():
        expected = (made.trainer.module(X) - targets) ** 2
    assert rows.values == pytest.approx(expected.reshape(-1).tolist(), rel=1e-4)
    assert made.constant_loss() == pytest.approx(float(targets.var(correction=0)), rel=1e-5)
    assert learner((X[:, 0] > 0).long(), 2).constant_loss() is None


def test_a_loss_that_is_no_mean_over_rows_gives_none() -> None:
    def spread(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy(outputs, targets) + outputs.std() if len(outputs) > 1 else outputs.sum() * float("nan")

    made = learner((X[:, 0] > 0).long(), 2, loss=spread, metrics=lambda outputs, targets: {})
    assert made.rows()[1] is None
