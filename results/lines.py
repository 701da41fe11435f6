"""metrics.jsonl as it is read: a line for each round, of this version or an older one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from dpeer.results.json_fields import Keys, said
from dpeer.results.values import figures, flag, number, table, total, whole

Figure = Literal[
    "accuracy", "accuracy_trained", "test_loss", "epsilon", "training_accuracy", "training_accuracy_trained",
    "generalization_gap",
]  # fmt: skip
"""What a peer is measured by, in its lines and at the end in its summary."""


def _round(value: Any) -> int:
    found = whole(value)
    return -1 if found is None else found


def _active(value: Any) -> bool:
    return value is not False


@dataclass(frozen=True)
class Line(Keys):
    """One round of one peer (docs/files.md). None is what the line does not say, or what is not finite."""

    round: int = said(_round)
    """From 0 on; -1 is that of no line."""
    accuracy: float | None = said(number)
    accuracy_trained: float | None = said(number)
    accuracy_finished: float | None = said(number)
    """Of the model that `--finish` has trained on: in the last line alone, and only where it was asked for."""
    training_accuracy: float | None = said(number)
    """Accuracy on the peer's own training data, after mixing; None unless it was asked for."""
    training_accuracy_trained: float | None = said(number)
    generalization_gap: float | None = said(number)
    """Training accuracy less accuracy, both after mixing."""
    auroc: float | None = said(number)
    """Of two classes, after mixing; None for other data, and in lines of an older version."""
    test_loss: float | None = said(number)
    metrics: Mapping[str, float | None] | None = said(figures)
    """None in a round that was not evaluated."""
    train_loss: float | None = said(number)
    active: bool = said(_active)
    """Older versions knew no round that a peer sits out."""
    diverged: bool | None = said(flag)
    """None in lines of an older version: see `has_diverged`."""
    samples: int | None = said(total)
    """For how many training samples a gradient was computed; None in lines of an older version."""
    bytes_sent: int | None = said(total)
    bytes_received: int | None = said(total)
    epsilon: float | None = said(number)
    privacy: Mapping[str, Any] | None = said(table)
    """What the releases so far have cost; None without privacy."""

    @property
    def has_diverged(self) -> bool:
        """Whether training has diverged: its loss was not finite.

        A line of an older dpeer does not say it: there a round that the peer took part in and that has no loss
        diverged.
        """
        return self.active and self.train_loss is None if self.diverged is None else self.diverged


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
