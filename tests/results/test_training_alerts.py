"""The alerts that training goes wrong, on curves that are made up."""

import math
from collections.abc import Iterable
from typing import Any

import pytest

from dpeer.results.training_alerts import ROUNDS, Alert, AlertMonitor, guessing_loss

TEN = math.log(10)


def alerts(
    monitor: AlertMonitor, losses: Iterable[float | None] = (), **columns: Iterable[Any]
) -> list[tuple[int, Alert]]:
    """Every alert with its round."""
    given = {"train_loss": list(losses), **{name: list(values) for name, values in columns.items()}}
    found = []
    for number in range(max(map(len, given.values()))):
        values = {name: column[number] for name, column in given.items() if column}
        line = {"round": number, "active": True, "diverged": False, **values}
        found += [(number, alert) for alert in monitor.look(line)]
    return found


def kinds(*arguments: Any, **columns: Any) -> list[str]:
    return [alert.kind for _, alert in alerts(*arguments, **columns)]


@pytest.mark.parametrize("chance", [TEN, None])
def test_curves_of_ordinary_runs_have_no_alert(chance: float | None) -> None:
    for losses in (
        [2.0, 1.2, 0.7, 0.4, 0.3, 0.25, 0.2, 0.2, 0.2, 0.2],
        [0.05, 0.001, 0.0005, 0.0004, 0.0004, 0.0004, 0.0004, 0.0004],  # learned at once, and flat since
        [1.9, 1.6, 1.7, 1.4, 1.5, 1.2, 1.3, 1.1, 1.2, 1.0],  # a little up and down
        [0.01, 0.002, 0.01, 0.002, 0.01, 0.002, 0.01, 0.002],  # up and down, where nothing is left to learn
        [0.1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.5],  # the first round's own fit is lost in the mean
        [2.29, 2.25, 2.2, 2.1, 2.0, 1.9],  # slow
        [2.4, 3.4, 1.0, 0.8, 0.7, 0.6],  # one bad round
        [1.0, 0.98, 0.96, 0.95, 0.94, 0.93, 0.93, 0.93, 0.93, 0.93],  # hard, but better than guessing
    ):
        # Without a known chance the first round's loss stands for guessing's, so it has to be of that order.
        assert kinds(AlertMonitor(chance), losses if chance else [TEN, *losses]) == [], losses


def test_a_loss_that_stays_at_guessing_is_flat_once() -> None:
    monitor = AlertMonitor(TEN)
    ((number, alert),) = alerts(monitor, [2.31, 2.30, 2.29, 2.31] * 4)
    assert (number, alert.kind) == (ROUNDS - 1, "flat")
    assert alert.text == (
        "the loss is 2.31, for 5 rounds no better than 2.3 of guessing: nothing is learned; try other "
        "--body-lr and --head-lr, such as a fifth, or --grad-clip 1"
    )
    # Where guessing is not known, a loss that does not move is flat.
    assert kinds(AlertMonitor(), [7.0, 7.0, 7.01, 6.99, 7.0, 7.0]) == ["flat"]
    assert kinds(AlertMonitor(), [7.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]) == [], "it has moved"
    assert kinds(AlertMonitor(), [0.0] * 9) == []


def test_a_loss_far_above_guessing_is_divergence_though_it_is_finite() -> None:
    monitor = AlertMonitor(TEN)
    ((number, alert),) = alerts(monitor, [9.5e6])
    assert (number, alert.kind, monitor.ruined) == (0, "diverged", True)
    assert alert.text.startswith("training has diverged: the loss is 9.5e+06, against 2.3 of guessing; try ")
    for ordinary in (AlertMonitor(TEN, private=True), AlertMonitor(None)):
        assert "diverged" not in kinds(ordinary, [9.5e6])
        assert not ordinary.ruined
    back = AlertMonitor(TEN)
    alerts(back, [9.5e6, 2.0])
    assert not back.ruined


def test_the_accuracy_of_a_model_that_is_not_trained_yet_does_not_count() -> None:
    """The first model of a peer that sits rounds out."""
    line = {"round": 0, "train_loss": None, "active": False, "diverged": False, "accuracy": 0.0}
    monitor = AlertMonitor(majority=0.7, classes=3)
    assert all(monitor.look(line) == [] for _ in range(9))
    assert kinds(monitor, accuracy=[0.7] * 4) == []
    assert kinds(monitor, accuracy=[0.7]) == ["majority"]


def test_a_loss_that_is_not_finite_has_diverged() -> None:
    monitor = AlertMonitor(TEN)
    line = {"round": 0, "train_loss": None, "active": True, "diverged": True}
    assert [alert.kind for alert in monitor.look(line)] == ["diverged"]
    assert (monitor.look(line), monitor.given) == ([], ["diverged"])
    for sound in ({"active": False, "diverged": False}, {"active": True, "diverged": False}, {"active": False}):
        assert AlertMonitor().look({"round": 0, "train_loss": None, **sound}) == []
    assert len(AlertMonitor().look({**line, "active": False})) == 1, "fine-tuned"


def test_a_model_that_always_answers_the_most_frequent_class_has_an_alert() -> None:
    monitor = AlertMonitor(majority=0.7, classes=3)
    ((number, alert),) = alerts(monitor, accuracy=[0.7] * 7, metrics=[{"balanced_accuracy": 1 / 3}] * 7)
    assert number == 4
    assert alert.text == (
        "accuracy is 0.7000, for 5 evaluations not better than always the most frequent class (0.7000); try other "
        "--body-lr and --head-lr, such as a fifth, or --grad-clip 1"
    )
    for majority, accuracy, recall, classes in (
        (0.7, [0.7, 0.7, 0.7, 0.7, 0.72, 0.7, 0.7, 0.7, 0.7], 0.34, 3),  # it moves
        (0.93, [0.9] * 9, 0.8, 3),  # rare classes are found
        (1.0, [1.0] * 9, 1.0, 1),
        (None, [0.1] * 9, None, 3),
    ):
        metrics = [{"balanced_accuracy": recall}] * len(accuracy)
        assert kinds(AlertMonitor(majority=majority, classes=classes), accuracy=accuracy, metrics=metrics) == []


def test_a_model_whose_scores_separate_rows_has_learned_whatever_its_answers() -> None:
    constant: dict[str, Any] = {"accuracy": [0.9] * 6, "metrics": [{"balanced_accuracy": 0.5}] * 6}
    losses = [0.325] * 6
    monitor = AlertMonitor(0.325, majority=0.9, classes=2)
    assert kinds(monitor, losses, auroc=[0.52] * 6, **constant) == ["flat", "majority"]
    assert kinds(AlertMonitor(0.325, majority=0.9, classes=2), losses, auroc=[0.85] * 6, **constant) == []


def test_the_loss_of_guessing_is_the_entropy_of_the_classes() -> None:
    assert guessing_loss([5] * 10) == pytest.approx(TEN)
    assert guessing_loss([3, 1, 0]) == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert guessing_loss([7, 0]) == 0
    assert guessing_loss(None) is guessing_loss([]) is guessing_loss([0, 0]) is None
