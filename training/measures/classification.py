"""Figures of a classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpeer.training.measures.intervals import UNDEFINED, Numbers, Whole, bootstrap, wilson

_BOOTSTRAPPED = ("auroc", "balanced_accuracy", "f1", "brier", "ece")


def measure_classes(shares: Numbers, guess: Whole, truth: Whole, names: tuple[str, ...]) -> dict[str, Any]:
    """All figures of a classification, with intervals.

    Predicted probabilities have shape (rows, classes).
    """
    binary = len(names) == 2
    figures: dict[str, Any] = {"kind": "classification", "rows": len(truth)}
    figures |= {"positive": names[1]} if binary else {}
    if not np.isfinite(shares).all():
        wanted = ("accuracy", *_BOOTSTRAPPED, *(("sensitivity", "specificity") if binary else ()))
        return figures | {"values": dict.fromkeys(wanted, UNDEFINED)}
    rows = Classified(shares, guess, truth)
    ends = bootstrap(rows.weighted, len(truth), truth)
    found = {
        name: UNDEFINED if value is None else {"value": value, "low": ends[name][0], "high": ends[name][1]}
        for name, value in rows.points.items()
    }
    classes = [
        {
            "class": name,
            "rows": int((truth == number).sum()),
            **_shares_of(rows, number),
            **{key: found[f"{key} {number}"] for key in ("f1", "auroc")},
        }
        for number, name in enumerate(names)
    ]
    values = {"accuracy": wilson(int((guess == truth).sum()), len(truth))}
    values |= {name: found[name] for name in _BOOTSTRAPPED}
    values |= {name: classes[1][name] for name in ("sensitivity", "specificity")} if binary else {}
    pairs = np.bincount(truth * len(names) + guess, minlength=len(names) ** 2)
    return figures | {
        "values": values,
        "classes": classes,
        "confusion": pairs.reshape(len(names), -1).tolist(),
    }


def auroc_of(shares: Numbers, guess: Whole, truth: Whole) -> float | None:
    """The AUROC, of two classes that of the second, else the mean over those that occur; None if it is undefined."""
    return Classified(shares, guess, truth).points["auroc"]


def _shares_of(rows: Classified, number: int) -> dict[str, Any]:
    """Sensitivity and specificity of one class against the rest."""
    is_it, guessed = rows.truth == number, rows.guess == number
    return {
        "sensitivity": wilson(int((guessed & is_it).sum()), int(is_it.sum())),
        "specificity": wilson(int((~guessed & ~is_it).sum()), int((~is_it).sum())),
    }


BINS = 10
"""Bins of equal width, by which calibration is measured; a border belongs to the bin below it."""


class Classified:
    """Predictions and the truth of rows, from which figures are computed.

    Args:
        shares: Predicted probabilities, shape (rows, classes).
        guess: Predicted classes.
        truth: True classes.
    """

    def __init__(self, shares: Numbers, guess: Whole, truth: Whole) -> None:
        self.shares, self.guess, self.truth = shares, guess, truth
        each, binary = np.arange(len(truth)), shares.shape[1] == 2
        errors = shares.copy()
        errors[each, truth] -= 1.0
        # Each row's part of the Brier score (1950): of two classes the second one's alone.
        self._squares = errors[:, 1] ** 2 if binary else (errors**2).sum(axis=1)
        # Of two classes the probability of the second one, and whether the row is of it; of more that of the predicted
        # class, and whether it is the true one (Guo et al., On Calibration of Modern Neural Networks, ICML 2017).
        confidence, hit = (shares[:, 1], truth == 1) if binary else (shares[each, guess], guess == truth)
        self._gaps = confidence - hit.astype(np.float64)
        self._bins = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], confidence).astype(np.int64)

    @property
    def points(self) -> dict[str, float | None]:
        """Figures by name, those of a class as ``"f1 0"``; None for one that the rows do not define."""
        every = self.weighted(np.ones((1, len(self.truth))))
        return {name: float(one) if np.isfinite(one) else None for name, (one,) in every.items()}

    def weighted(self, weights: Numbers) -> dict[str, Numbers]:
        """Every figure of every resample, by how often each row counts in it: `weights`, shape (resamples, rows)."""
        count, classes = weights.sum(axis=1), self.shares.shape[1]
        right = (self.guess == self.truth).astype(np.float64)
        there = _by(self.truth, weights, classes)
        hits, guessed = _by(self.truth, weights * right, classes), _by(self.guess, weights, classes)
        recall = _divide(hits, there)
        f1 = np.where(there > 0, _divide(2 * hits, there + guessed), np.nan)
        auroc = np.stack([self._auroc(number, weights) for number in range(classes)], axis=1)
        binary = classes == 2
        found = {
            "balanced_accuracy": _mean(recall),
            "f1": f1[:, 1] if binary else _mean(f1),
            "auroc": auroc[:, 1] if binary else _mean(auroc),
            "brier": weights @ self._squares / count,
            "ece": np.abs(_by(self._bins, weights * self._gaps, BINS)).sum(axis=1) / count,
        }
        found |= {f"f1 {number}": f1[:, number] for number in range(classes)}
        return found | {f"auroc {number}": auroc[:, number] for number in range(classes)}

    def _auroc(self, number: int, weights: Numbers) -> Numbers:
        """One class against the rest: the chance that a row of it scores higher (Mann and Whitney, 1947)."""
        is_it = self.truth == number
        if is_it.all() or not is_it.any():
            return np.full(len(weights), np.nan)
        scores, place = np.unique(self.shares[:, number], return_inverse=True)
        yes, no = (_by(place[chosen], weights[:, chosen], len(scores)) for chosen in (is_it, ~is_it))
        below = np.cumsum(no, axis=1) - no
        return _divide((yes * (below + no / 2)).sum(axis=1), yes.sum(axis=1) * no.sum(axis=1))


def _by(key: Whole, weights: Numbers, count: int) -> Numbers:
    """Sums of weights over rows of the same key, shape (resamples, count)."""
    order = np.argsort(key, kind="stable")
    keys, starts = np.unique(key[order], return_index=True)
    found = np.zeros((len(weights), count))
    found[:, keys] = np.add.reduceat(weights[:, order], starts, axis=1)
    return found


def _divide(above: Numbers, below: Numbers) -> Numbers:
    """The quotient; NaN where it would be divided by zero."""
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)


def _mean(values: Numbers) -> Numbers:
    """The mean over classes, without those that are NaN; NaN where all are."""
    known = np.isfinite(values)
    return _divide(np.where(known, values, 0.0).sum(axis=1), known.sum(axis=1).astype(np.float64))
