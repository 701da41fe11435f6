"""What is read from a cell's files, held against numpy and the learner's own count of gradients."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.cli.compare.results import Result
from dpeer.exceptions import ConfigurationError
from dpeer.training import ALGORITHMS, Hyperparameters, Learner, Task, find_algorithm, options_among

Made = Callable[..., Result]
RNG = np.random.default_rng(3)


def test_last_round_and_mean_of_the_last_ten_and_never_the_best(result: Made) -> None:
    values = RNG.uniform(size=(3, 14))
    values[:, 2] = 1.0  # the best, long ago
    found = result(values.tolist())
    assert found.last("accuracy") == pytest.approx(values[:, -1])
    assert found.late("accuracy") == pytest.approx(values[:, 4:].mean(axis=1))
    assert found.last("accuracy_trained") == pytest.approx(values[:, -1] / 2)
    assert found.late("accuracy_trained") == pytest.approx(values[:, 4:].mean(axis=1) / 2)


def test_of_the_last_ten_rounds_those_that_were_evaluated_count(result: Made) -> None:
    values = RNG.uniform(size=(2, 14))
    found = result(values.tolist(), evaluate_every=4)  # rounds 3, 7, 11 and the last, 13
    assert found.late("accuracy") == pytest.approx(values[:, [7, 11, 13]].mean(axis=1))
    assert [number for number, _ in found.curve("accuracy")] == [3, 7, 11, 13]
    rare = result(values.tolist(), evaluate_every=50)
    assert rare.late("accuracy") == rare.last("accuracy") == pytest.approx(values[:, -1])
    short = result(values[:, :3].tolist())
    assert short.late("accuracy") == pytest.approx(values[:, :3].mean(axis=1))


def test_an_accuracy_that_training_lost_is_not_left_out_of_the_mean(result: Made) -> None:
    values = [[0.5] * 6, [0.5] * 5 + [None]]
    found = result(values)
    assert found.last("accuracy")[0] == 0.5
    assert math.isnan(found.last("accuracy")[1])
    assert math.isnan(found.late("accuracy")[1])
    assert found.reached("accuracy", 0.5) is not None  # before that
    early = result([[0.5] * 6, [None] + [0.5] * 5])
    cost = early.reached("accuracy", 0.5)
    assert cost is not None
    assert cost.rounds == 6


def test_the_loss_says_whether_training_diverged_but_not_of_who_sat_out(result: Made) -> None:
    values = [[0.5] * 3] * 2
    assert not result(values).diverged
    assert not result(values, active=lambda rank, number: rank != number).diverged
    assert result(values, lost=lambda rank, number: (rank, number) == (1, 0)).diverged
    assert not result(values, trains=False).diverged


def test_the_target_is_held_against_a_mean_of_five(result: Made) -> None:
    values = [[0.0, 1.0, 0.0, 0.6, 0.6, 0.6, 0.8, 0.9], [0.0, 1.0, 0.0, 0.6, 0.6, 0.6, 0.6, 0.9]]
    mean = np.mean(values, axis=0)
    smooth = np.convolve(mean, np.ones(5) / 5, "valid")
    target = 0.55
    expected = int(np.argmax(smooth >= target)) + 5
    found = result(values)
    cost = found.reached("accuracy", target)
    assert cost is not None
    assert cost.rounds == expected == 6
    assert cost.busiest_bytes == 200 * expected
    assert cost.samples == found.samples(expected) == expected * 2 * 10 * (5 + 1)
    assert found.reached("accuracy", 0.99) is None
    assert found.reached("accuracy_trained", target) is None


def test_the_busiest_peer_is_that_of_the_rounds_it_took(result: Made) -> None:
    found = result([[0.9] * 8] * 3)
    cost = found.reached("accuracy", 0.9)
    assert cost is not None
    assert (cost.rounds, cost.busiest_bytes) == (5, 5 * 300)
    assert found.sent == pytest.approx(8 * 200)


def test_majority_is_of_the_training_class_on_what_is_evaluated(result: Made) -> None:
    assert result([[0.5]], counts=([1, 5, 2], [2, 3, 5])).majority == pytest.approx(0.3)
    assert result([[0.5]], counts=([1, 0, 2], [4, 4])).majority == 0.0  # class 2 is not among what is evaluated
    assert result([[0.5]], counts=None).majority is None


def test_a_task_without_accuracy_is_refused_with_what_it_has(result: Made) -> None:
    with pytest.raises(ConfigurationError, match=r"'mine' has no metric named accuracy \(it has: error, bias\)"):
        result([[0.5]], metrics=("error", "bias"))


def task(samples: int, head: tuple[str, ...] = ("2",)) -> Task:
    data = TensorDataset(torch.randn(samples, 4), torch.arange(samples) % 3)
    return Task(model=nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), head=head, train=data, test=data)


def counted(algorithm: str, samples: int, values: dict[str, Any], head: tuple[str, ...] = ("2",)) -> int:
    h = Hyperparameters(**{name: value for name, value in values.items() if name in Hyperparameters.model_fields})
    options = options_among(find_algorithm(algorithm), values)
    learner = Learner(task(samples, head), algorithm, h, rank=0, seed=0, options=options)
    for number in range(h.rounds):
        learner.train(number)
        payload = learner.release(number)
        if payload is not None:
            learner.mix({}, {0: 1.0})
    learner.finish(h.rounds - 1)
    return learner.gradients


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "values",
    [
        {"body_epochs": 2, "head_epochs": 3},
        {"body_epochs": 2, "head_epochs": 3, "local_steps": 7, "sam": "head"},
        {"body_epochs": 3, "head_epochs": 2, "local_steps": 5, "sam": "both", "finetune_epochs": 2},
        {"body_epochs": 2, "head_epochs": 3, "rho": 0.0},
        {"body_epochs": 1, "head_epochs": 1, "batch_size": 100},
    ],
    ids=["epochs", "steps, SAM on the head", "steps that do not fit", "SAM of no radius", "one batch"],
)
def test_samples_processed_are_the_gradients_that_learners_count(
    algorithm: str, values: dict[str, Any], result: Made
) -> None:
    h = {"batch_size": 8, "rounds": 2, **values}
    sizes = (21, 16, 3)
    found = result([[0.5] * 2] * 3, algorithm=algorithm, samples=sizes, **{"batch_size": 8, **values})
    assert found.samples() == sum(counted(algorithm, samples, h) for samples in sizes)


def test_a_phase_without_parameters_processes_nothing(result: Made) -> None:
    found = result([[0.5]], algorithm="dfedsmdc", samples=[21], head_parameters=0, batch_size=8)
    assert found.samples() == counted("dfedsmdc", 21, {"batch_size": 8, "rounds": 1}, head=())


def test_who_sits_a_round_out_processes_nothing_in_it(result: Made) -> None:
    found = result([[0.5] * 4] * 2, samples=[10, 20], active=lambda rank, number: rank == 0 or number == 3)
    assert found.samples() == 4 * 10 * 6 + 1 * 20 * 6
    assert found.samples(2) == 2 * 10 * 6
