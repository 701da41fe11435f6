"""The results of a cell as its files have them, held against numpy."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.experiments.outcomes import Result

Made = Callable[..., Result]
RNG = np.random.default_rng(3)


def test_figures_are_of_the_last_round(result: Made) -> None:
    values = RNG.uniform(size=(2, 6))
    found = result(values.tolist(), lambda rank, number: {"samples": 1000 * rank + 10 * number + 1})
    assert found.accuracies("accuracy_mixed") == values[:, -1].tolist()
    assert found.accuracies("accuracy_trained") == (values[:, -1] / 2).tolist()
    assert found.samples() == sum(1000 * rank + 10 * n + 1 for rank in range(2) for n in range(6))
    assert found.sent == 6 * 150


def test_an_accuracy_that_training_lost_is_none(result: Made) -> None:
    found = result([[0.5] * 6, [0.5] * 5 + [None]])
    assert found.accuracies("accuracy_mixed")[0] == 0.5
    assert math.isnan(found.accuracies("accuracy_mixed")[1])


def test_a_loss_that_is_not_finite_is_divergence(result: Made) -> None:
    assert not result([[0.5] * 3] * 2).diverged
    assert result([[0.5] * 3] * 2, lambda rank, number: {"diverged": (rank, number) == (1, 0)}).diverged


def test_majority_is_of_the_training_class_on_the_evaluated_rows(result: Made) -> None:
    assert result([[0.5]], counts=([1, 5, 2], [2, 3, 5])).majority == pytest.approx(0.3)
    assert result([[0.5]], counts=([1, 0, 2], [4, 4])).majority == 0.0  # class 2 is not among what is evaluated
    assert result([[0.5]], counts=None).majority is None


def test_a_task_without_accuracy_is_refused_with_its_metrics(result: Made) -> None:
    with pytest.raises(ConfigurationError) as refused:
        result([[0.5]], metrics=("error", "bias"))
    assert str(refused.value) == (
        "task 'mine' has no metric named accuracy (it has: error, bias), which comparisons are by"
    )
