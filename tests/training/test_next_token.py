"""Figures of next-token prediction, kept by window in place of all scores."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Task, build_learner
from dpeer.training.metrics import figures_of_windows, next_token_metrics

VOCABULARY, LENGTH = 7, 5


class Bigrams(nn.Module):
    """Scores of the next token by the token before it."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(VOCABULARY, 8), nn.Linear(8, VOCABULARY)

    def forward(self, numbers: Tensor) -> Tensor:
        out: Tensor = self.head(self.table(numbers)).transpose(1, 2)
        return out


def task(**changes: Any) -> Task:
    torch.manual_seed(0)
    model = Bigrams()
    rows = torch.randint(0, VOCABULARY, (300, LENGTH + 1))
    data = TensorDataset(rows[:, :-1], rows[:, 1:])
    given = {"metrics": next_token_metrics, "by_row": figures_of_windows} | changes
    return Task(model=model, head=("head",), train=data, test=data, **given)


def expected(made: Task) -> tuple[Any, Any]:
    """By window, the share of right tokens and the mean loss, with numpy alone."""
    numbers, targets = (tensor.numpy() for tensor in made.test.tensors)
    with torch.no_grad():
        scores = made.model(torch.from_numpy(numbers)).double().numpy()
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    right = (scores.argmax(axis=1) == targets).mean(axis=1)
    theirs = np.take_along_axis(shares, targets[:, None], axis=1)[:, 0]
    return right, -np.log(theirs).mean(axis=1)


def test_figures_are_those_of_all_tokens() -> None:
    made = task()
    right, losses = expected(made)
    found = build_learner(made, "dfedmdc", rank=0, seed=0).evaluate()
    assert found.accuracy == pytest.approx(right.mean())
    assert found.test_loss == pytest.approx(losses.mean(), rel=1e-5)
    assert found.metrics["bits_per_token"] == pytest.approx(losses.mean() / math.log(2), rel=1e-5)
    assert found.metrics["perplexity"] == pytest.approx(math.exp(losses.mean()), rel=1e-5)


def test_rows_are_windows() -> None:
    made = task()
    right, losses = expected(made)
    learner = build_learner(made, "dfedmdc", rank=0, seed=0)
    rows = learner.selection.rows()[1]
    assert rows.measure == "accuracy"
    np.testing.assert_allclose(rows.values, right)

    def losses_alone(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"test_loss": figures_of_windows(outputs, targets)["test_loss"]}

    made = task(by_row=losses_alone, metrics=lambda figures, _: {"bits": figures["test_loss"].mean()})
    rows = build_learner(made, "dfedmdc", rank=0, seed=0).selection.rows()[1]
    assert rows.measure == "test_loss"
    np.testing.assert_allclose(rows.values, losses, rtol=1e-5)


def test_figures_of_rows_that_are_not_the_whole_sets_are_left_out() -> None:
    made = task(
        by_row=lambda outputs, targets: {"accuracy": torch.ones(len(targets))}, metrics=lambda f, t: {"accuracy": 0.5}
    )
    assert build_learner(made, "dfedmdc", rank=0, seed=0).selection.rows()[1] is None


def test_an_infinite_loss_has_an_infinite_perplexity() -> None:
    figures = {"accuracy": torch.zeros(2), "test_loss": torch.tensor([1e4, 1.0])}
    assert next_token_metrics(figures, torch.zeros(2, 1))["perplexity"] == math.inf
