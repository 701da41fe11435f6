from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task, build_learner
from dpeer.training.metrics import classification_metrics


@pytest.mark.parametrize("seed", range(5))
def test_default_metrics_against_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.choice([0, 1, 4, 5], p=[0.6, 0.2, 0.1, 0.1], size=80)
    scores = rng.normal(size=(80, 6))
    scores[:, [2, 3]] = -9  # classes that neither occur nor are predicted
    found = classification_metrics(torch.tensor(scores), torch.tensor(truth))
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, scores.argmax(1)))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, scores.argmax(1)))


def test_default_metrics_of_a_regression_are_none(make_task: Callable[..., Task]) -> None:
    data = TensorDataset(torch.randn(20, 6), torch.randn(20, 3))
    found = build_learner(
        make_task(train=data, test=data, loss=nn.functional.mse_loss), "dfedmdc", rank=0, seed=0
    ).evaluate()
    assert found.accuracy is None
    assert found.metrics == {}
    assert found.test_loss > 0


def test_evaluation_is_over_the_whole_test_set_in_eval_mode(make_task: Callable[..., Task]) -> None:
    torch.manual_seed(5)
    test = TensorDataset(torch.randn(600, 6), torch.randint(0, 3, (600,)))
    task = make_task(test=test, dropout=0.5)
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


def test_own_metrics(make_task: Callable[..., Task]) -> None:
    def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
        return {"error": (outputs.argmax(1) != targets).float().mean(), "count": len(targets)}

    found = build_learner(make_task(metrics=metrics), "local", rank=0, seed=0).evaluate()
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


def test_structured_outputs_are_joined(make_task: Callable[..., Task]) -> None:
    test = TensorDataset(torch.randn(300, 6), torch.randint(0, 3, (300,)))
    task = make_task(
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
