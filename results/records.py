"""A peer's record of a round: one line of metrics.jsonl."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from dpeer.results.files import finite
from dpeer.results.lines import Line


class Evaluation(Protocol):
    """How well the model that predicts does on this peer's own test data."""

    @property
    def accuracy(self) -> float | None:
        """Share of correct predictions in 0..1; None where the task has no such metric."""

    @property
    def test_loss(self) -> float | None:
        """Mean loss over the test data."""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Every metric of the task, by name."""

    @property
    def training_accuracy(self) -> float | None:
        """The same on its training data; None where that was not measured."""

    @property
    def auroc(self) -> float | None:
        """The area under the ROC curve of two classes; None for other data."""


@dataclass(frozen=True)
class RoundRecord:
    """One line of metrics.jsonl (docs/files.md): None where not evaluated, or where there is no such metric."""

    round: int
    accuracy: float | None
    test_loss: float | None
    metrics: Mapping[str, float] | None
    accuracy_trained: float | None
    train_loss: float | None
    """None where nothing was trained; not finite where training has diverged."""
    bytes_sent: int
    bytes_received: int
    heard: list[int]
    missed: list[int]
    train_seconds: float
    exchange_seconds: float
    mix_seconds: float
    samples: int
    """For how many samples a gradient was computed in the round."""
    epsilon: float | None = None
    delta: float | None = None
    active: bool = True
    """False in a round that the peer sat out."""
    privacy: Mapping[str, Any] | None = None
    """What the releases so far have cost, and what clipping met in this one."""
    accuracy_finished: float | None = None
    """Of the model that `--finish` has trained on, in the last round; so are the others of this ending."""
    test_loss_trained: float | None = None
    test_loss_finished: float | None = None
    metrics_trained: Mapping[str, float] | None = None
    metrics_finished: Mapping[str, float] | None = None
    training_accuracy: float | None = None
    """On the peer's own training data, where that was asked for (`--training-accuracy`); so are the next ones."""
    training_accuracy_trained: float | None = None
    training_accuracy_finished: float | None = None
    generalization_gap: float | None = None
    """Training accuracy less accuracy, both after mixing."""
    auroc: float | None = None
    """After mixing, of two classes."""

    @classmethod
    def evaluated(
        cls, after: Evaluation | None, trained: Evaluation | None, finished: Evaluation | None = None, **fields: Any
    ) -> RoundRecord:
        """A record with what the evaluations of the round found, as far as there were any."""
        return cls(
            accuracy=after.accuracy if after else None,
            test_loss=after.test_loss if after else None,
            metrics=dict(after.metrics) if after else None,
            accuracy_trained=trained.accuracy if trained else None,
            accuracy_finished=finished.accuracy if finished else None,
            test_loss_trained=trained.test_loss if trained else None,
            test_loss_finished=finished.test_loss if finished else None,
            metrics_trained=dict(trained.metrics) if trained else None,
            metrics_finished=dict(finished.metrics) if finished else None,
            training_accuracy=after.training_accuracy if after else None,
            training_accuracy_trained=trained.training_accuracy if trained else None,
            training_accuracy_finished=finished.training_accuracy if finished else None,
            generalization_gap=gap(after.training_accuracy, after.accuracy) if after else None,
            auroc=after.auroc if after else None,
            **fields,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: numbers that are not finite become None, and `diverged` tells whether the loss was one."""
        diverged = self.train_loss is not None and not math.isfinite(self.train_loss)
        plain: dict[str, Any] = finite(asdict(self)) | {"diverged": diverged}
        return plain


def gap(training: float | None, test: float | None) -> float | None:
    """The generalization gap, training accuracy less test accuracy; None where one of them is not known."""
    return None if training is None or test is None else training - test


def has_diverged(entry: Mapping[str, Any]) -> bool:
    """Whether training has diverged in a round, by its line of metrics.jsonl."""
    return Line.of(entry).has_diverged
