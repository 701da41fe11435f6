"""The signs that training goes wrong, on curves that are made up."""

import math
from collections.abc import Iterable
from typing import Any

import pytest

from dpeer.results.training_alerts import ROUNDS, Alert, AlertMonitor, guessing_loss

TEN = math.log(10)


def signs(
    watch: AlertMonitor, losses: Iterable[float | None] = (), **columns: Iterable[Any]
) -> list[tuple[int, Alert]]:
    """Every sign with the round that it came in."""
    given = {"train_loss": list(losses), **{name: list(values) for name, values in columns.items()}}
    rounds = max(map(len, given.values()))
    found = []
    for number in range(rounds):
        values = {name: column[number] for name, column in given.items() if column}
        line = {"round": number, "active": True, "diverged": False, **values}
        found += [(number, sign) for sign in watch.look(line)]
    return found


def kinds(*arguments: Any, **columns: Any) -> list[str]:
    return [sign.kind for _, sign in signs(*arguments, **columns)]


@pytest.mark.parametrize(
    "losses",
    [
        [2.0, 1.2, 0.7, 0.4, 0.3, 0.25, 0.2, 0.2, 0.2, 0.2],
        [0.05, 0.001, 0.0005, 0.0004, 0.0004, 0.0004, 0.0004, 0.0004],  # learned at once, and flat since
        [1.9, 1.6, 1.7, 1.4, 1.5, 1.2, 1.3, 1.1, 1.2, 1.0],  # a little up and down
        [0.01, 0.002, 0.01, 0.002, 0.01, 0.002, 0.01, 0.002],  # up and down, where nothing is left to learn
        [0.1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.5],  # the first round's own fit is lost in the mean
        [2.29, 2.25, 2.2, 2.1, 2.0, 1.9],  # slow
        [2.4, 3.4, 1.0, 0.8, 0.7, 0.6],  # one bad round
        [1.0, 0.98, 0.96, 0.95, 0.94, 0.93, 0.93, 0.93, 0.93, 0.93],  # hard, but better than guessing
    ],
)
@pytest.mark.parametrize("chance", [TEN, None])
def test_curves_of_ordinary_runs_give_no_sign(losses: list[float], chance: float | None) -> None:
    if chance is None:
        losses = [TEN, *losses]  # the first round's stands for that of guessing, so it has to be of that order
    assert kinds(AlertMonitor(chance), losses) == []


def test_a_loss_that_stays_at_guessing_is_flat_once() -> None:
    watch = AlertMonitor(TEN, slower=("--rho 0",), other=("--body-lr 0.01 or 0.25", "--standardize"))
    ((number, sign),) = signs(watch, [2.31, 2.30, 2.29, 2.31] * 4)
    assert (number, sign.kind) == (ROUNDS - 1, "flat")
    assert sign.text == (
        "the loss has stayed at 2.31 for 5 rounds, against 2.3 of guessing: nothing is learned; "
        "try --body-lr 0.01 or 0.25, --standardize"
    )


def test_a_loss_far_above_guessing_is_divergence_though_it_is_finite() -> None:
    watch = AlertMonitor(TEN, slower=("--body-lr 0.01",))
    ((number, sign),) = signs(watch, [9.5e6])
    assert (number, sign.kind, watch.ruined) == (0, "diverged", True)
    assert sign.text == "training has diverged: the loss is 9.5e+06, against 2.3 of guessing; try --body-lr 0.01"
    for ordinary in (AlertMonitor(TEN, private=True), AlertMonitor(None)):
        assert "diverged" not in [sign.kind for _, sign in signs(ordinary, [9.5e6])]
        assert not ordinary.ruined
    back = AlertMonitor(TEN)
    signs(back, [9.5e6, 2.0])
    assert not back.ruined


def test_where_guessing_is_not_known_a_loss_that_does_not_move_is_flat() -> None:
    assert kinds(AlertMonitor(), [7.0, 7.0, 7.01, 6.99, 7.0, 7.0]) == ["flat"]
    assert kinds(AlertMonitor(), [7.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]) == [], "it has moved"
    assert kinds(AlertMonitor(), [0.0] * 9) == []


def test_rounds_without_training_do_not_count() -> None:
    line = {"round": 0, "train_loss": None, "active": False, "diverged": False}
    watch = AlertMonitor(TEN)
    assert all(watch.look(line) == [] for _ in range(9))
    assert kinds(watch, [2.3] * 4 + [None] * 5) == []
    assert kinds(watch, [2.3]) == ["flat"]


@pytest.mark.parametrize("chance", [TEN, None])
def test_a_loss_that_grows_or_swings_is_of_rates_that_are_too_fast(chance: float | None) -> None:
    (_, first), (number, sign) = signs(AlertMonitor(chance, slower=("--body-lr 0.01",)), [2.0, 3.5, 9.0, 40.0, 90.0])
    assert first.kind == "jump"
    assert (number, sign.kind) == (3, "fast")
    assert sign.text.endswith(": the learning rates are too fast; try --body-lr 0.01")
    assert kinds(AlertMonitor(chance), [2.0, 0.8, 2.1, 0.7, 2.2, 0.9, 2.0]) == ["fast"]


def test_what_is_not_finite_has_diverged() -> None:
    watch = AlertMonitor(TEN)
    line = {"round": 0, "train_loss": None, "active": True, "diverged": True}
    (sign,) = watch.look(line)
    assert sign.kind == "diverged"
    assert watch.look(line) == []
    assert watch.given == ["diverged"]
    for sound in ({"active": False, "diverged": False}, {"active": True, "diverged": False}, {"active": False}):
        assert AlertMonitor().look({"round": 0, "train_loss": None, **sound}) == []
    assert len(AlertMonitor().look({"round": 0, "train_loss": None, "active": False, "diverged": True})) == 1, (
        "fine-tuned"
    )


def test_always_the_most_frequent_class() -> None:
    watch = AlertMonitor(majority=0.7, classes=3)
    constant = {"accuracy": 0.7, "metrics": {"balanced_accuracy": 1 / 3}}
    line = {"round": 0, "active": True, "diverged": False, **constant}
    found = [watch.look(line) for _ in range(7)]
    assert [len(signs) for signs in found] == [0, 0, 0, 0, 1, 0, 0]
    assert found[4][0].text == (
        "accuracy is 0.7000, for 5 evaluations not better than always the most frequent class (0.7000)"
    )


@pytest.mark.parametrize(
    ("majority", "accuracy", "recall"),
    [
        (0.7, [0.7, 0.7, 0.7, 0.7, 0.72, 0.7, 0.7, 0.7, 0.7], 0.34),  # it moves
        (0.93, [0.9] * 9, 0.8),  # rare classes are found
        (1.0, [1.0] * 9, 1.0),  # there is one class only
        (None, [0.1] * 9, None),
    ],
)
def test_ordinary_accuracies_give_no_sign(majority: float | None, accuracy: list[float], recall: float | None) -> None:
    metrics = [{"balanced_accuracy": recall}] * len(accuracy)
    classes = 1 if majority == 1 else 3
    assert kinds(AlertMonitor(majority=majority, classes=classes), accuracy=accuracy, metrics=metrics) == []


def test_guessing_is_the_entropy_of_the_classes() -> None:
    assert guessing_loss([5] * 10) == pytest.approx(TEN)
    assert guessing_loss([3, 1, 0]) == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    assert guessing_loss([7, 0]) == 0
    assert guessing_loss(None) is guessing_loss([]) is guessing_loss([0, 0]) is None


def test_a_loss_that_jumps_above_guessing_is_said_with_what_steadies_it() -> None:
    """Without clipping, on ten of a hundred classes a peer: seven of eight peers ended worse than alone."""
    watch = AlertMonitor(TEN, slower=("--rho 0",), steadier=("--grad-clip 1",))
    ((number, sign),) = signs(watch, [1.95, 3.03, 2.1, 1.9, 3.1])
    assert (number, sign.kind) == (1, "jump")
    assert sign.text == "the loss has jumped to 3.03, from 1.95 in an earlier round; try --grad-clip 1"
    assert kinds(AlertMonitor(None), [1.0, 0.5, 1.6]) == ["jump"]
    assert kinds(AlertMonitor(TEN), [0.5, 1.0, 2.3]) == [], "a round's own fit is lost in the mean"
    assert kinds(AlertMonitor(TEN, private=True), [1.95, 3.03]) == []


def test_a_model_that_tells_rows_apart_has_learned_whatever_its_answers() -> None:
    constant: dict[str, Any] = {"accuracy": [0.9] * 6, "metrics": [{"balanced_accuracy": 0.5}] * 6}
    losses = [0.325] * 6
    watch = AlertMonitor(0.325, majority=0.9, classes=2)
    assert kinds(watch, losses, auroc=[0.52] * 6, **constant) == ["flat", "majority"]
    ((_, sign),) = signs(AlertMonitor(0.325, majority=0.9, classes=2), losses, auroc=[0.85] * 6, **constant)
    assert sign.kind == "threshold"
    assert "nothing is learned" not in sign.text
    assert "but AUROC is 0.8500: the threshold hides what has been learned; try --class-weights balanced" in sign.text
