"""The results of a cell as its files have them, held against numpy."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpeer.exceptions import ConfigurationError
from dpeer.experiments.outcomes import WINDOW, Result, first_reached

Made = Callable[..., Result]
RNG = np.random.default_rng(3)


def test_of_the_last_ten_rounds_those_that_were_evaluated_count(result: Made) -> None:
    values = RNG.uniform(size=(2, 14))
    found = result(values.tolist(), evaluate_every=4)  # rounds 3, 7, 11 and the last, 13
    assert found.accuracies("accuracy_mixed", 10) == pytest.approx(values[:, [7, 11, 13]].mean(axis=1))
    assert found.evaluated(10) == 3
    assert [number for number, _ in found.curve("accuracy_mixed")] == [3, 7, 11, 13]
    rare = result(values.tolist(), evaluate_every=50)
    assert rare.accuracies("accuracy_mixed", 10) == rare.accuracies("accuracy_mixed") == pytest.approx(values[:, -1])
    short = result(values[:, :3].tolist())
    assert short.accuracies("accuracy_mixed", 10) == pytest.approx(values[:, :3].mean(axis=1))


def test_an_accuracy_that_training_lost_is_not_left_out_of_the_mean(result: Made) -> None:
    found = result([[0.5] * 6, [0.5] * 5 + [None]])
    assert found.accuracies("accuracy_mixed")[0] == 0.5
    assert math.isnan(found.accuracies("accuracy_mixed")[1])
    assert math.isnan(found.accuracies("accuracy_mixed", 10)[1])
    assert found.reached("accuracy_mixed", 0.5) is not None  # before that
    cost = result([[0.5] * 6, [None] + [0.5] * 5]).reached("accuracy_mixed", 0.5)
    assert cost is not None
    assert cost.rounds == 6


def test_the_costs_of_a_target_are_those_of_the_rounds_until_a_mean_of_five_reaches_it(result: Made) -> None:
    values = [[0.0, 1.0, 0.0, 0.6, 0.6, 0.6, 0.8, 0.9], [0.0, 1.0, 0.0, 0.6, 0.6, 0.6, 0.6, 0.9]]
    found = result(values, lambda rank, number: {"samples": 1000 * rank + 10 * number + 1})
    smooth = np.convolve(np.mean(values, axis=0), np.ones(5) / 5, "valid")
    expected = int(np.argmax(smooth >= 0.55)) + 5
    cost = found.reached("accuracy_mixed", 0.55)
    assert cost is not None
    assert cost.rounds == expected == 6
    assert cost.busiest_bytes == 200 * expected
    assert cost.samples == found.samples(6) == sum(1000 * rank + 10 * n + 1 for rank in range(2) for n in range(6))
    assert found.samples(0) == 0
    assert found.samples() == sum(1000 * rank + 10 * n + 1 for rank in range(2) for n in range(8))
    assert found.sent == 8 * 150
    assert found.reached("accuracy_mixed", 0.99) is None
    assert found.reached("accuracy_trained", 0.55) is None


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


@pytest.mark.parametrize("target", [0.05, 0.3, 0.62, 1.0])
def test_the_first_round_is_where_a_moving_average_is_at_the_target(target: float) -> None:
    values = np.clip(np.linspace(0, 0.8, 40) + RNG.normal(0, 0.2, 40), 0, 1)
    rounds = np.arange(2, 82, 2) - 1  # every other round was evaluated
    smooth = np.convolve(values, np.ones(WINDOW) / WINDOW, "valid")
    reached = np.flatnonzero(smooth >= target)
    expected = int(rounds[reached[0] + WINDOW - 1]) + 1 if len(reached) else None
    assert first_reached(list(zip(rounds.tolist(), values.tolist(), strict=True)), target) == expected
    assert first_reached([(number, 1.0 if number == 4 else 0.5) for number in range(9)], 0.9) is None, "one lucky round"
    assert first_reached([(number, 0.75) for number in range(9)], 0.75) == WINDOW
