"""The record of one round of one peer: a line of metrics.jsonl, as it is written and read; and the file's writer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import StrictBool

from dpeer.atomic import flush
from dpeer.results.files import finite, parse, replace
from dpeer.results.json_fields import Count, Figures, JsonFields, Number, Total

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
class RoundRecord(JsonFields):
    """One line of metrics.jsonl (docs/files.md): filled while the round runs, and as it is read.

    None stands for what was not evaluated, for a task without such a metric, and for a value that is missing in the
    file, damaged or not finite.
    """

    round: Count = -1
    """From 0 on; -1 is that of no line."""
    accuracy: Number | None = None
    test_loss: Number | None = None
    metrics: Figures | None = None
    accuracy_trained: Number | None = None
    train_loss: Number | None = None
    """None where nothing was trained; not finite where training has diverged."""
    bytes_sent: Total | None = None
    bytes_received: Total | None = None
    heard: Sequence[Count] = ()
    missed: Sequence[Count] = ()
    train_seconds: Number | None = None
    exchange_seconds: Number | None = None
    mix_seconds: Number | None = None
    samples: Total | None = None
    """For how many samples a gradient was computed in the round."""
    steps: Sequence[Count] = ()
    """How many minibatches each phase of training has taken, in their order; none in a round that was sat out."""
    steps_asked: Sequence[Count] = ()
    """How many those are without `--round-seconds`."""
    epsilon: Number | None = None
    delta: Number | None = None
    active: StrictBool = True
    """False in a round that the peer sat out."""
    adopted: StrictBool = False
    """Whether the body was replaced by the mean of the neighbors', because they had gone on without this peer."""
    disagreement: Number | None = None
    """Relative distance of this peer's released body to the mix; None where it mixed or released nothing."""
    privacy: Mapping[str, Any] | None = None
    """The costs of the releases so far, and the clipping of this one; None without privacy."""
    accuracy_finished: Number | None = None
    """Of the model that `--finish` has trained on, in the last round; so are the others of this ending."""
    test_loss_trained: Number | None = None
    test_loss_finished: Number | None = None
    metrics_trained: Figures | None = None
    metrics_finished: Figures | None = None
    training_accuracy: Number | None = None
    """On the peer's own training data, where that was asked for (`--training-accuracy`); so are the next ones."""
    training_accuracy_trained: Number | None = None
    training_accuracy_finished: Number | None = None
    generalization_gap: Number | None = None
    """Training accuracy less accuracy, both after mixing."""
    auroc: Number | None = None
    """After mixing, of two classes."""
    diverged: StrictBool = False
    """Whether training has diverged: its loss was not finite."""

    @property
    def seconds(self) -> tuple[float, float, float] | None:
        """How long it trained, waited and mixed; None where one of them is not known."""
        train, wait, mix = self.train_seconds, self.exchange_seconds, self.mix_seconds
        return None if train is None or wait is None or mix is None else (train, wait, mix)

    def add(self, found: Evaluation | None, point: str) -> None:
        """Take the figures of an evaluation "" (after mixing), "_trained" or "_finished"; nothing without one."""
        if found is None:
            return
        for name in _EVALUATED:
            setattr(self, f"{name}{point}", getattr(found, name))
        setattr(self, f"metrics{point}", dict(found.metrics))
        if not point:
            self.generalization_gap, self.auroc = gap(found.training_accuracy, found.accuracy), found.auroc

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values: numbers that are not finite become None."""
        plain: dict[str, Any] = finite(vars(self))
        return plain


def gap(training: float | None, test: float | None) -> float | None:
    """The generalization gap, training accuracy less test accuracy; None where one of them is not known."""
    return None if training is None or test is None else training - test


@dataclass(frozen=True)
class Metrics:
    """The lines of one peer, as far as they can be read.

    Attributes:
        lines: In the order of the file. A peer that was killed may have left two of one round.
        damaged: The number of lines that could not be read.
        torn: Whether the last of them has no end: the peer was killed while it wrote it.
    """

    lines: tuple[RoundRecord, ...] = ()
    damaged: int = 0
    torn: bool = False

    @cached_property
    def by_round(self) -> Mapping[int, RoundRecord]:
        """The lines by round, in order; of two of one round the later."""
        return dict(sorted({line.round: line for line in self.lines}.items()))


class MetricsFile:
    """metrics.jsonl: one line a round, kept in step with the checkpoint.

    Args:
        path: The file.
        next_round: Lines from this round on do not count: they belong to rounds that are run again.

    Attributes:
        known: When it was read, the rounds up to the last line but for adoptions, and up to the last line of a body
            that was sent; whether they count or not.
    """

    def __init__(self, path: Path, next_round: int = 0) -> None:
        self._path = path
        self._kept: list[str] = []
        self.known = 0, 0
        for line in _lines(path):
            record = RoundRecord.of(parse(line) or {})
            number = record.round
            known, sent = number + (not record.adopted), number + 1 if record.active else 0
            self.known = max(self.known[0], known), max(self.known[1], sent)
            if 0 <= number < next_round:
                self._kept.append(line)

    def rewrite(self) -> None:
        """Drop the lines that do not count from the file, which is made if it is missing."""
        replace(self._path, "".join(f"{line}\n" for line in self._kept))
        self._kept = []

    def append(self, entry: dict[str, Any]) -> None:
        """Add a round's line, also after one that has no end; after a power loss it may be missing until `flush`."""
        with self._path.open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
            if file.read() not in (b"", b"\n"):
                file.write(b"\n")
            file.write(json.dumps(entry).encode() + b"\n")

    def flush(self) -> None:
        """Flush the lines to disk: the checkpoint that follows must not be ahead of them."""
        try:
            flush(self._path)
        except FileNotFoundError:
            if not self._path.parent.exists():
                raise
            # Another program has just deleted it: `missing` counts its lines.

    def missing(self, completed: int) -> int:
        """How many of the completed rounds have no line in the file."""
        found = {RoundRecord.of(parse(line) or {}).round for line in _lines(self._path)}
        return len({*range(completed)} - found)


def _lines(path: Path) -> list[str]:
    """The lines of a file; none without it."""
    return path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
