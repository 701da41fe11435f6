"""One round of one peer, a line of metrics.jsonl: the record that is written, and the line that is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from dpeer.results.files import finite
from dpeer.results.json_fields import JsonFields, figures, json_field, number, table, total, whole

Figure = Literal[
    "accuracy", "accuracy_trained", "test_loss", "training_accuracy", "training_accuracy_trained", "generalization_gap"
]
"""The figures of a peer in its lines and, at the end, in its summary."""


_EVALUATED = ("accuracy", "test_loss", "training_accuracy")
"""Figures of an evaluation that a line has of each point of a round."""


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


@dataclass
class RoundRecord:
    """One line of metrics.jsonl (docs/files.md): None where not evaluated, or without such a metric."""

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
    receive_seconds: float = 0.0
    """In which neighbors' bodies were coming in, from the first header to the last chunk."""
    hidden_seconds: float = 0.0
    """Of those, in which something else was done: training, evaluation, a checkpoint."""
    steps: list[int] = field(default_factory=list)
    """How many minibatches each phase of training has taken, in their order; none in a round that was sat out."""
    steps_asked: list[int] = field(default_factory=list)
    """How many those are without `--round-seconds`."""
    epsilon: float | None = None
    delta: float | None = None
    active: bool = True
    """False in a round that the peer sat out."""
    adopted: bool = False
    """Whether the body was replaced by the mean of the neighbors', because they had gone on without this peer."""
    disagreement: float | None = None
    """Relative distance of this peer's released body to the mix; None where it mixed or released nothing."""
    privacy: Mapping[str, Any] | None = None
    """The costs of the releases so far, and the clipping of this one."""
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
        """A record with the figures of the round's evaluations."""
        found: dict[str, Any] = dict.fromkeys(("accuracy", "test_loss", "metrics", "accuracy_trained"))
        for point, one in (("", after), ("_trained", trained), ("_finished", finished)):
            if one is not None:
                found |= {f"{name}{point}": getattr(one, name) for name in _EVALUATED}
                found[f"metrics{point}"] = dict(one.metrics)
        return cls(
            generalization_gap=gap(after.training_accuracy, after.accuracy) if after else None,
            auroc=after.auroc if after else None,
            **found,
            **fields,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: numbers that are not finite become None; `diverged` is true where the loss was one."""
        diverged = self.train_loss is not None and not math.isfinite(self.train_loss)
        plain: dict[str, Any] = finite(vars(self)) | {"diverged": diverged}
        return plain


def line_wait(receive: float, hidden: float, exchange: float) -> float:
    """The seconds of a round in which the peer waited for bodies that were coming in.

    Args:
        receive: Seconds in which bodies were coming in.
        hidden: Those of them in which the peer did something else.
        exchange: Seconds of all waiting.
    """
    return min(exchange, max(0.0, receive - hidden))


def line_share(entry: Mapping[str, Any]) -> float | None:
    """The share of a round in which the peer waited for bodies that were coming in; None where that is not known.

    Args:
        entry: The round's line of metrics.jsonl.
    """
    names = ("receive_seconds", "hidden_seconds", "train_seconds", "exchange_seconds", "mix_seconds")
    receive, hidden, train, exchange, mix = (number(entry.get(name)) for name in names)
    if receive is None or hidden is None or train is None or exchange is None or mix is None:
        return None
    total = train + exchange + mix
    return line_wait(receive, hidden, exchange) / total if total > 0 else None


def gap(training: float | None, test: float | None) -> float | None:
    """The generalization gap, training accuracy less test accuracy; None where one of them is not known."""
    return None if training is None or test is None else training - test


def _round(value: Any) -> int:
    found = whole(value)
    return -1 if found is None else found


def _active(value: Any) -> bool:
    return value is not False


def _diverged(value: Any) -> bool:
    return value is True


@dataclass(frozen=True)
class Line(JsonFields):
    """One round of one peer as it is read. None stands for a value that is missing or not finite."""

    round: int = json_field(_round)
    """From 0 on; -1 is that of no line."""
    accuracy: float | None = json_field(number)
    accuracy_trained: float | None = json_field(number)
    accuracy_finished: float | None = json_field(number)
    training_accuracy: float | None = json_field(number)
    training_accuracy_trained: float | None = json_field(number)
    generalization_gap: float | None = json_field(number)
    auroc: float | None = json_field(number)
    test_loss: float | None = json_field(number)
    metrics: Mapping[str, float | None] | None = json_field(figures)
    train_loss: float | None = json_field(number)
    active: bool = json_field(_active)
    adopted: bool = json_field(lambda value: value is True)
    diverged: bool = json_field(_diverged)
    """Whether training has diverged: its loss was not finite."""
    samples: int | None = json_field(total)
    disagreement: float | None = json_field(number)
    bytes_sent: int | None = json_field(total)
    bytes_received: int | None = json_field(total)
    train_seconds: float | None = json_field(number)
    exchange_seconds: float | None = json_field(number)
    mix_seconds: float | None = json_field(number)
    receive_seconds: float | None = json_field(number)
    hidden_seconds: float | None = json_field(number)
    epsilon: float | None = json_field(number)
    privacy: Mapping[str, Any] | None = json_field(table)
    """The costs of the releases so far; None without privacy."""


@dataclass(frozen=True)
class Metrics:
    """The lines of one peer, as far as they can be read.

    Attributes:
        lines: In the order of the file. A peer that was killed may have left two of one round.
        damaged: The number of lines that could not be read.
        torn: Whether the last of them has no end: the peer was killed while it wrote it.
    """

    lines: tuple[Line, ...] = ()
    damaged: int = 0
    torn: bool = False

    @cached_property
    def by_round(self) -> Mapping[int, Line]:
        """The lines by round, in order; of two of one round the later."""
        return dict(sorted({line.round: line for line in self.lines}.items()))
