"""Training alerts: signs in a peer's rounds that its training goes wrong, and advice; none is given twice.

    diverged    the loss is not finite, or so large that the model is of no use
    jump        the loss of a round is far above the best so far, and above that of guessing
    fast        the loss is far above that of guessing, again and again, or goes up and down by much of it
    flat        the loss stays at that of guessing
    majority    the model answers one class only, or does no better than that
    threshold   the same, while its scores separate the rows of two classes

A loss is held against that of guessing: of an answer that knows the shares of the classes and nothing of the row. Where
that is not known (a loss of the task's own), it is held against the loss of the first round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from dpeer.results.json_fields import JsonFields, figures, json_field, number

Kind = Literal["diverged", "jump", "fast", "flat", "majority", "threshold"]

ROUNDS = 5
"""So many rounds in a row have to look alike."""

_AT_CHANCE = 0.97
"""A loss that is at least this share of guessing's has learned nothing worth a word."""

_UNMOVED = 0.01
"""Losses that differ by less than this share are the same, where guessing's is not known."""

_EXPLODED, _GROWN = 2.0, 4.0
"""Times the loss of guessing, or of the first round, that a loss is too large at; twice is a sign."""

_RUINED = 100.0
"""Times the loss of guessing beyond which a loss is no better than one that is not finite: wrong, and sure of it."""

_LEAST = 0.1
"""The loss of guessing is taken for no less: of one class alone it is zero."""

_SWING = 0.2
"""The least change, up and down in turns, as a share of guessing's loss or the first."""

_JUMP, _BEYOND = 1.5, 1.2
"""Times the best loss so far, and times that of guessing (or the first), that one round's loss has jumped to."""

_CLASS_SLACK = 0.25
"""How much better than a constant answer, as a share of it, the mean recall of the classes may be: a few rows."""


_RANKS = 0.65
"""The AUROC from which something has been learned, also of a few rows."""


@dataclass(frozen=True)
class Alert:
    """One alert.

    Attributes:
        kind: Which.
        text: A sentence for the log and the terminal.
    """

    kind: Kind
    text: str


@dataclass(frozen=True)
class _Signs(JsonFields):
    """What alerts need of a round's line: to read all of a `Line` takes five times as long."""

    accuracy: float | None = json_field(number)
    auroc: float | None = json_field(number)
    train_loss: float | None = json_field(number)
    metrics: Mapping[str, float | None] | None = json_field(figures)
    active: bool = json_field(lambda value: value is not False)
    diverged: bool = json_field(lambda value: value is True)


@dataclass
class AlertMonitor:
    """Alerts from the lines of metrics.jsonl of one peer as they are written.

    Attributes:
        chance: The loss of guessing; None where it is not known.
        majority: The accuracy of always answering the most frequent class; None without classes.
        classes: How many classes are among the rows that are evaluated.
        slower: Advice where the rates are too fast, a few words each.
        other: Advice where nothing is learned.
        steadier: Advice where the loss jumps.
        private: Whether noise is added to bodies, which may make a loss as large as that.
    """

    chance: float | None = None
    majority: float | None = None
    classes: int = 0
    slower: Sequence[str] = ()
    other: Sequence[str] = ()
    steadier: Sequence[str] = ()
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
        """The alerts that are new with this line.

        Args:
            entry: The line of the round that follows those before.
        """
        line = _Signs.of(entry)
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
        return [Alert(kind, text + self._advice(kind)) for kind, text in new.items()]

    def _advice(self, kind: Kind) -> str:
        if kind == "threshold":
            return "; try --class-weights balanced, or a threshold of your own on its scores"
        tried = self.steadier if kind == "jump" else self.slower if kind in ("diverged", "fast") else self.other
        return f"; try {', '.join(tried)}" if tried else ""

    def _of_losses(self) -> dict[Kind, str]:
        losses, first = self._losses, f"{self._losses[0]:.3g} of the first round"
        if self.ruined:
            against = f"{self.chance:.3g} of guessing"
            return {"diverged": f"training has diverged: the loss is {losses[-1]:.3g}, against {against}"}
        if self._exploded():
            against = first if self.chance is None else f"{self.chance:.3g} of guessing"
            return {"fast": f"the loss is {losses[-1]:.3g}, against {against}: the learning rates are too fast"}
        if self._jumped():
            best = min(losses[:-1])
            return {"jump": f"the loss has jumped to {losses[-1]:.3g}, from {best:.3g} in an earlier round"}
        if self._swings():
            recent = losses[-ROUNDS - 1 :]
            between = f"{min(recent):.3g} and {max(recent):.3g}"
            return {"fast": f"the loss goes up and down between {between}: the learning rates are too fast"}
        if len(losses) >= ROUNDS and self._flat(losses[-ROUNDS:]):
            against = first if self.chance is None else f"{self.chance:.3g} of guessing"
            stayed = f"the loss has stayed at {losses[-1]:.3g} for {ROUNDS} rounds"
            return {"flat": f"{stayed}, against {against}: nothing is learned"}
        return {}

    def _exploded(self) -> bool:
        limit = _EXPLODED * self.chance if self.chance is not None else _GROWN * self._losses[0]
        above = [loss > limit for loss in self._losses[1:]]
        return above[-1:] == [True] and sum(above) >= 2

    def _jumped(self) -> bool:
        if self.private or len(self._losses) < 2:  # noise makes losses jump, too
            return False
        best, guessing = min(self._losses[:-1]), self._losses[0] if self.chance is None else self.chance
        return self._losses[-1] > max(_JUMP * best, _BEYOND * guessing)

    def _swings(self) -> bool:
        recent = self._losses[-ROUNDS - 1 :]
        if len(recent) <= ROUNDS:
            return False
        least = _SWING * (self.chance if self.chance is not None else self._losses[0])
        changes = [after - before for before, after in pairwise(recent)]
        return all(abs(change) > least for change in changes) and all(a * b < 0 for a, b in pairwise(changes))

    def _flat(self, recent: Sequence[float]) -> bool:
        if self.chance is not None:
            return min(recent) >= _AT_CHANCE * self.chance > 0
        first = self._losses[0]
        unmoved = max(recent) - min(recent) <= _UNMOVED * abs(first)
        return first != 0 and unmoved and recent[-1] >= first - _UNMOVED * abs(first)

    def _beats_majority(self, line: _Signs) -> bool:
        if self.majority is None or self.majority >= 1 or self.classes < 2 or line.accuracy is None:
            return True
        if line.accuracy > self.majority:
            return True
        # Rows of rare classes may be recognised at the price of frequent ones.
        recall = (line.metrics or {}).get("balanced_accuracy")
        return recall is not None and recall > (1 + _CLASS_SLACK) / self.classes

    def _of_accuracies(self, line: _Signs) -> dict[Kind, str]:
        if len(self._beaten) < ROUNDS or any(self._beaten[-ROUNDS:]):
            return {}
        text = (
            f"accuracy is {line.accuracy:.4f}, for {ROUNDS} evaluations not better than always the most frequent class "
            f"({self.majority:.4f})"
        )
        if ranks_rows(line.auroc):
            return {"threshold": f"{text}, but AUROC is {line.auroc:.4f}: the threshold hides what has been learned"}
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
