"""Training alerts: signs in a peer's rounds that its training goes wrong, and advice; none is given twice.

    diverged    the loss is not finite, or so large that the model is of no use
    flat        the loss is no better than that of guessing
    majority    the model answers one class only, or does no better than that

A model whose scores separate the rows of classes (AUROC) has learned something: it is neither flat nor majority.

A loss is held against that of guessing: of an answer that knows the shares of the classes and nothing of the row. Where
that is not known (a loss of the task's own), it is held against the loss of the first round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dpeer.results.records import RoundRecord

Kind = Literal["diverged", "flat", "majority"]

ROUNDS = 5
"""So many rounds in a row have to look alike."""

_AT_CHANCE = 0.97
"""A loss that is at least this share of guessing's has learned nothing worth a word."""

_UNMOVED = 0.01
"""Losses that differ by less than this share are the same, where guessing's is not known."""

_RUINED = 100.0
"""Times the loss of guessing beyond which a loss is no better than one that is not finite: wrong, and sure of it."""

_LEAST = 0.1
"""The loss of guessing is taken for no less: of one class alone it is zero."""

_CLASS_SLACK = 0.25
"""How much better than a constant answer, as a share of it, the mean recall of the classes may be: a few rows."""


_ADVICE = "; try other --body-lr and --head-lr, such as a fifth, or --grad-clip 1"

_RANKS = 0.65
"""The AUROC from which something has been learned, also of a few rows."""


@dataclass(frozen=True)
class Alert:
    """One alert."""

    kind: Kind
    text: str


@dataclass
class AlertMonitor:
    """Alerts from the lines of metrics.jsonl of one peer as they are written.

    Attributes:
        chance: The loss of guessing; None where it is not known.
        majority: The accuracy of always answering the most frequent class; None without classes.
        classes: How many classes are among the rows that are evaluated.
        private: Whether noise is added to bodies, which may make a loss as large as that.
    """

    chance: float | None = None
    majority: float | None = None
    classes: int = 0
    private: bool = False
    _losses: list[float] = field(default_factory=list)
    _beaten: list[bool] = field(default_factory=list)
    _given: set[Kind] = field(default_factory=set)

    @property
    def ruined(self) -> bool:
        """Whether the loss of the last round is finite, and so large that training counts as diverged."""
        if self.chance is None or self.private or not self._losses:
            return False
        return self._losses[-1] > _RUINED * max(self.chance, _LEAST)

    @property
    def given(self) -> list[str]:
        """The kinds of alerts that were given."""
        return sorted(self._given)

    def look(self, entry: Mapping[str, Any]) -> list[Alert]:
        """The alerts that are new with this line."""
        line = RoundRecord.of(entry)
        found: dict[Kind, str] = {}
        if line.diverged:
            found["diverged"] = "training has diverged: the loss is not finite (NaN in the data does that, too)"
        elif line.active and line.train_loss is not None:
            self._losses.append(line.train_loss)
            found |= self._of_losses()
            if ranks_rows(line.auroc):
                found.pop("flat", None)
        if line.active and line.accuracy is not None:
            self._beaten.append(self._beats_majority(line))
            found |= self._of_accuracies(line)
        new = {kind: text for kind, text in found.items() if kind not in self._given}
        self._given |= new.keys()
        return [Alert(kind, text + _ADVICE) for kind, text in new.items()]

    def _of_losses(self) -> dict[Kind, str]:
        losses, first = self._losses, f"{self._losses[0]:.3g} of the first round"
        if self.ruined:
            against = f"{self.chance:.3g} of guessing"
            return {"diverged": f"training has diverged: the loss is {losses[-1]:.3g}, against {against}"}
        if len(losses) >= ROUNDS and self._flat(losses[-ROUNDS:]):
            against = first if self.chance is None else f"{self.chance:.3g} of guessing"
            text = f"the loss is {losses[-1]:.3g}, for {ROUNDS} rounds no better than {against}: nothing is learned"
            return {"flat": text}
        return {}

    def _flat(self, recent: Sequence[float]) -> bool:
        if self.chance is not None:
            return min(recent) >= _AT_CHANCE * self.chance > 0
        first = self._losses[0]
        unmoved = max(recent) - min(recent) <= _UNMOVED * abs(first)
        return first != 0 and unmoved and recent[-1] >= first - _UNMOVED * abs(first)

    def _beats_majority(self, line: RoundRecord) -> bool:
        if self.majority is None or self.majority >= 1 or self.classes < 2 or line.accuracy is None:
            return True
        if line.accuracy > self.majority:
            return True
        # Rows of rare classes may be recognised at the price of frequent ones.
        recall = (line.metrics or {}).get("balanced_accuracy")
        return recall is not None and recall > (1 + _CLASS_SLACK) / self.classes

    def _of_accuracies(self, line: RoundRecord) -> dict[Kind, str]:
        if len(self._beaten) < ROUNDS or any(self._beaten[-ROUNDS:]) or ranks_rows(line.auroc):
            return {}
        text = (
            f"accuracy is {line.accuracy:.4f}, for {ROUNDS} evaluations not better than always the most frequent class "
            f"({self.majority:.4f})"
        )
        return {"majority": text}


def ranks_rows(auroc: float | None) -> bool:
    """Whether a model's scores separate the rows of classes, whatever its answers: AUROC is well above 0.5."""
    return auroc is not None and auroc >= _RANKS


def guessing_loss(counts: Sequence[int] | None) -> float | None:
    """The cross-entropy of an answer that knows the shares of the classes alone, in nats; None without classes."""
    if not counts or not sum(counts):
        return None
    shares = [count / sum(counts) for count in counts if count]
    return -math.fsum(share * math.log(share) for share in shares)
