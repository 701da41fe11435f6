"""Evaluation in each round: metrics against scikit-learn, figures of rows, and accuracy on the training data."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss
from torch.utils.data import TensorDataset

from dpeer.results.records import RoundRecord, gap
from dpeer.training import Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.evaluation import Evaluation
from dpeer.training.objective import classification_metrics
from tests.training.small import gossip, mix, small_task


@pytest.mark.parametrize("seed", range(5))
def test_default_metrics_against_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.choice([0, 1, 4, 5], p=[0.6, 0.2, 0.1, 0.1], size=80)
    scores = rng.normal(size=(80, 6))
    scores[:, [2, 3]] = -9  # classes that neither occur nor are predicted
    found = classification_metrics(torch.tensor(scores), torch.tensor(truth))
    assert found["accuracy"] == pytest.approx(accuracy_score(truth, scores.argmax(1)))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, scores.argmax(1)))


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


# Figures of single rows, whose mean is the figure of the whole test set.


X = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))


def learner(targets: torch.Tensor, outputs: int, **values: Any) -> TorchLearner:
    torch.manual_seed(0)
    data = TensorDataset(X, targets)
    task = Task(model=nn.Sequential(nn.Linear(4, 6), nn.Linear(6, outputs)), head=("1",), train=data, test=data,
                **values)  # fmt: skip
    return build_learner(task, "local", Hyperparameters(body_epochs=1), rank=0, seed=0)


def test_right_and_wrong_answers_and_rows_without_a_target() -> None:
    made = learner((X[:, 0] > 0).long(), 3)
    made.train(0)
    found, rows = made.rows()
    with torch.no_grad():
        expected = made.trainer.module(X).argmax(dim=1) == (X[:, 0] > 0).long()
    assert (rows.measure, rows.values) == ("accuracy", tuple(expected.double().tolist()))
    assert found == made.evaluate()
    some = (X[:, 0] > 0).long().where(torch.arange(300) % 3 > 0, -100)
    found, rows = learner(some, 3).rows()
    assert (rows.measure, len(rows.values)) == ("accuracy", 200)
    assert sum(rows.values) / 200 == pytest.approx(found.accuracy)


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_the_area_under_the_curve_is_scikit_learns(classes: int) -> None:
    """Of four classes the last is empty; of one alone there is no area."""
    targets = (X[:, 0] + X[:, 1] > 0).long() * (classes > 1) + (X[:, 2] > 0).long() * (classes > 2)
    made = learner(targets, max(classes, 2))
    _, rows = made.rows()
    with torch.no_grad():
        shares = torch.softmax(made.trainer.module(X).double(), dim=1).numpy()
    there = targets.unique().tolist()
    areas = [roc_auc_score(targets == number, shares[:, number]) for number in there] if classes > 1 else [None]
    assert rows.auroc == (areas[-1] if classes < 3 else pytest.approx(sum(areas) / len(areas)))


@pytest.mark.parametrize("shape", [(300,), (300, 1)])
def test_answers_of_one_logit_with_the_tasks_own_accuracy(shape: tuple[int, ...]) -> None:
    def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        return {"accuracy": float(((outputs.reshape(-1) > 0) == (targets.reshape(-1) > 0.5)).float().mean())}

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return binary_cross_entropy_with_logits(outputs.reshape(-1), targets.reshape(-1))

    found, rows = learner((X[:, 0] > 0).float().reshape(shape), 1, loss=loss, metrics=metrics).rows()
    assert rows.measure == "accuracy"
    assert sum(rows.values) / 300 == pytest.approx(found.accuracy)


def test_a_regression_has_losses_and_a_constant_to_beat() -> None:
    targets = X[:, :1] * 2 + 1
    made = learner(targets, 1, loss=mse_loss)
    found, rows = made.rows()
    assert (found.accuracy, found.metrics) == (None, {})
    with torch.no_grad():
        expected = (made.trainer.module(X) - targets) ** 2
    assert rows.values == pytest.approx(expected.reshape(-1).tolist(), rel=1e-4)
    assert made.selection.constant_loss(made.trainer.data) == pytest.approx(float(targets.var(correction=0)), rel=1e-5)
    of_classes = learner((X[:, 0] > 0).long(), 2)
    assert of_classes.selection.constant_loss(of_classes.trainer.data) is None


# Accuracy on a peer's own training data: what it is of, and that it changes nothing else.


def right(ours: TorchLearner, data: Any) -> float:
    """The share of rows that the model, as it is, predicts rightly."""
    inputs, labels = data.tensors
    ours.trainer.module.eval()
    with torch.no_grad():
        return float((ours.trainer.module(inputs).argmax(dim=1) == labels).double().mean())


def test_it_is_of_the_model_and_the_rows_that_it_was_trained_on() -> None:
    ours = build_learner(small_task(), "dfedmdc", rank=0, seed=0, training_accuracy=True)
    for number in range(2):
        ours.train(number)
        before = ours.evaluate()
        assert before.training_accuracy == right(ours, ours.trainer.task.train)
        assert before.accuracy == right(ours, ours.trainer.task.test)
        sent = ours.release(number)
        other = np.frombuffer(sent[0], "<f4") * 0.5
        mix(ours, {1: [other.tobytes()]}, {0: 0.5, 1: 0.5})
        after = ours.evaluate()
        assert after.training_accuracy == right(ours, ours.trainer.task.train)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_measuring_changes_no_bit_of_a_model(dropout: float) -> None:
    found = []
    for measured in (False, True):
        peers = [
            build_learner(small_task(rank, dropout=dropout), "dfedsmdc", rank=rank, seed=0, training_accuracy=measured)
            for rank in range(3)
        ]
        gossip(peers, 2, evaluate=True)
        found.append([ours.trainer.model.data.clone() for ours in peers])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_line_has_the_gap_of_the_mixed_model() -> None:
    after, trained = Evaluation(0.7, 0.1, {}, 0.9), Evaluation(0.6, 0.1, {}, 1.0)
    line = RoundRecord(round=0)
    line.add(after, "")
    line.add(trained, "_trained")
    assert (line.training_accuracy, line.training_accuracy_trained) == (0.9, 1.0)
    assert line.generalization_gap == pytest.approx(0.2)
    line = RoundRecord(round=0)
    line.add(None, "")
    assert line.training_accuracy is line.generalization_gap is None
    assert gap(None, 0.5) is gap(0.5, None) is None
