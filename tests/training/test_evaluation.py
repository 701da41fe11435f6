"""Evaluation in each round: default metrics against scikit-learn, own metrics, AUROC."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss
from torch.utils.data import TensorDataset

from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.metrics import classification_metrics
from tests.training.small import small_task


@pytest.mark.parametrize("seed", range(5))
def test_default_metrics_against_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.choice([0, 1, 4, 5], p=[0.6, 0.2, 0.1, 0.1], size=80)
    scores = rng.normal(size=(80, 6))
    scores[:, [2, 3]] = -9  # classes that neither occur nor are predicted
    found = classification_metrics(torch.tensor(scores), torch.tensor(truth))
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, scores.argmax(1)))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, scores.argmax(1)))


def test_default_metrics_of_a_regression_are_none() -> None:
    data = TensorDataset(torch.randn(20, 6), torch.randn(20, 3))
    found = build_learner(
        small_task(train=data, test=data, loss=nn.functional.mse_loss), "dfedmdc", rank=0, seed=0
    ).evaluate()
    assert found.accuracy is None
    assert found.metrics == {}
    assert found.test_loss > 0


def test_evaluation_is_over_the_whole_test_set_in_eval_mode() -> None:
    torch.manual_seed(5)
    test = TensorDataset(torch.randn(600, 6), torch.randint(0, 3, (600,)))
    task = small_task(test=test, dropout=0.5)
    learner = build_learner(task, "dfedmdc", rank=0, seed=0)
    learner.train(0)
    found = learner.evaluate()
    assert task.model.training
    task.model.eval()
    with torch.no_grad():
        probabilities = task.model(test.tensors[0]).softmax(1).double().numpy()
    truth = test.tensors[1].numpy()
    expected = log_loss(truth, probabilities / probabilities.sum(1, keepdims=True))
    assert found.test_loss == pytest.approx(expected, rel=1e-5)
    assert found.accuracy == found.metrics["accuracy"] == pytest.approx(accuracy_score(truth, probabilities.argmax(1)))


def test_own_metrics() -> None:
    def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
        return {"error": (outputs.argmax(1) != targets).float().mean(), "count": len(targets)}

    found = build_learner(small_task(metrics=metrics), "local", rank=0, seed=0).evaluate()
    assert found.accuracy is None
    assert found.metrics["count"] == 30.0
    assert all(type(value) is float for value in found.metrics.values())


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        hidden = self.fc1(x)
        return {"hidden": hidden, "scores": self.fc(hidden)}


def test_structured_outputs_are_joined() -> None:
    test = TensorDataset(torch.randn(300, 6), torch.randint(0, 3, (300,)))
    task = small_task(
        model=Pair(),
        test=test,
        loss=lambda o, t: nn.functional.cross_entropy(o["scores"], t),
        metrics=lambda o, t: {"rows": o["hidden"].shape[0], **classification_metrics(o["scores"], t)},
    )
    learner = build_learner(task, "dfedmdc", rank=0, seed=0)
    learner.train(0)
    found = learner.evaluate()
    assert found.metrics["rows"] == 300
    assert found.accuracy is not None


@pytest.mark.parametrize(("classes", "known"), [(2, True), (3, False)])
def test_auroc_of_two_classes_is_measured_with_each_evaluation(classes: int, known: bool) -> None:
    """The model that answers the frequent class alone may rank rows all the same."""
    torch.manual_seed(7)
    inputs = torch.randn(300, 4)
    data = TensorDataset(inputs, (inputs[:, 0] + torch.randn(300) > 2).long())
    task = Task(model=nn.Linear(4, classes), head=(), train=data, test=data)
    found = build_learner(task, "dfedavgm", rank=0, seed=0).evaluate()
    if not known:
        assert found.auroc is None
        return
    with torch.no_grad():
        scores = task.model(inputs).softmax(dim=1)[:, 1]
    assert found.auroc == pytest.approx(roc_auc_score(data.tensors[1], scores))


# Figures of single rows, whose mean is the figure of the whole test set.


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


def test_rows_without_a_target_have_no_answer() -> None:
    targets = (X[:, 0] > 0).long().where(torch.arange(300) % 3 > 0, -100)
    found, rows = learner(targets, 3).rows()
    assert rows is not None
    assert (rows.measure, len(rows.values)) == ("accuracy", 200)
    assert sum(rows.values) / 200 == pytest.approx(found.accuracy)


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
