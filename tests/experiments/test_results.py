"""What is read from a cell's files, held against numpy."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.experiments.outcomes import Result

Made = Callable[..., Result]
RNG = np.random.default_rng(3)


def test_last_round_and_mean_of_the_last_ten_and_never_the_best(result: Made) -> None:
    values = RNG.uniform(size=(3, 14))
    values[:, 2] = 1.0  # the best, long ago
    found = result(values.tolist())
    assert found.accuracies("accuracy_mixed") == pytest.approx(values[:, -1])
    assert found.accuracies("accuracy_mixed", 10) == pytest.approx(values[:, 4:].mean(axis=1))
    assert found.accuracies("accuracy_trained") == pytest.approx(values[:, -1] / 2)
    assert found.accuracies("accuracy_trained", 10) == pytest.approx(values[:, 4:].mean(axis=1) / 2)
    assert [found.evaluated(last) for last in (1, 10, 20)] == [1, 10, 14]


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
    values = [[0.5] * 6, [0.5] * 5 + [None]]
    found = result(values)
    assert found.accuracies("accuracy_mixed")[0] == 0.5
    assert math.isnan(found.accuracies("accuracy_mixed")[1])
    assert math.isnan(found.accuracies("accuracy_mixed", 10)[1])
    assert found.reached("accuracy_mixed", 0.5) is not None  # before that
    early = result([[0.5] * 6, [None] + [0.5] * 5])
    cost = early.reached("accuracy_mixed", 0.5)
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
    cost = found.reached("accuracy_mixed", target)
    assert cost is not None
    assert cost.rounds == expected == 6
    assert cost.busiest_bytes == 200 * expected
    assert cost.samples == found.samples(expected) == expected * 2 * 60
    assert found.reached("accuracy_mixed", 0.99) is None
    assert found.reached("accuracy_trained", target) is None


def test_the_busiest_peer_is_that_of_the_rounds_it_took(result: Made) -> None:
    found = result([[0.9] * 8] * 3)
    cost = found.reached("accuracy_mixed", 0.9)
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


def test_samples_processed_are_what_the_rounds_say(result: Made) -> None:
    found = result([[0.5] * 4] * 2, samples=lambda rank, number: 1000 * rank + 10 * number + 1)
    assert found.samples() == sum(1000 * rank + 10 * number + 1 for rank in range(2) for number in range(4))
    assert found.samples(2) == 1 + 11 + 1001 + 1011
    assert found.samples(0) == 0


def test_who_sits_a_round_out_processes_nothing_in_it(result: Made) -> None:
    found = result([[0.5] * 4] * 2, active=lambda rank, number: rank == 0 or number == 3)
    assert found.samples() == 4 * 60 + 1 * 60
    assert found.samples(2) == 2 * 60


def test_samples_of_an_older_version_are_not_known(result: Made) -> None:
    found = result([[0.9] * 8] * 2, samples=lambda rank, number: None if (rank, number) == (1, 6) else 5)
    assert found.samples() is None
    assert found.samples(6) == 60
    cost = found.reached("accuracy_mixed", 0.9)
    assert cost is not None
    assert cost.samples == 50


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", None, "has no summary.json of all peers"),
        ("rank-1/summary.json", '{"rank": 1, ', "has summaries of 1 of its 2 peers"),
        ("rank-1/metrics.jsonl", None, "metrics.jsonl of rank 1 that is empty or damaged"),
        ("rank-0/metrics.jsonl", '{"round": 0}\n{"rou\n', "metrics.jsonl of rank 0 that is empty or damaged"),
        ("rank-0/metrics.jsonl", '{"round": 0}\n', "other rounds in metrics.jsonl of one peer than of another"),
    ],
)
def test_a_run_of_which_something_is_missing_is_refused_and_not_averaged(
    write_cell: Callable[..., Path], name: str, content: str | None, message: str
) -> None:
    folder = write_cell("cell", [[0.5] * 3] * 2)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    with pytest.raises(OutputError, match=f"'{folder}' holds a run that is done but .*{message}.*: remove that folder"):
        Result(folder)
