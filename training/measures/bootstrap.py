"""The figures of a classification for many resamples at once: scikit-learn would take a second for a few hundred."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeer.training.measures.calibration import BINS, bin_of, confidences

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """What figures are computed from, for each row.

    Attributes:
        shares: Predicted probabilities, shape (rows, classes).
        guess: Predicted classes.
        truth: True classes.
        squares: The row's part of the Brier score (1950): of two classes the squared error of the second one's
            probability, of more the sum of all classes' squared errors.
        confidence, hit: See `confidences`.
    """

    shares: Numbers
    guess: Whole
    truth: Whole
    squares: Numbers
    confidence: Numbers
    hit: Numbers

    @classmethod
    def of(cls, shares: Numbers, guess: Whole, truth: Whole) -> Rows:
        """What follows from predictions and truth."""
        errors = shares.copy()
        errors[np.arange(len(truth)), truth] -= 1.0
        squares = errors[:, 1] ** 2 if shares.shape[1] == 2 else (errors**2).sum(axis=1)
        return cls(shares, guess, truth, squares, *confidences(shares, guess, truth))


def weighted(rows: Rows, weights: Numbers) -> dict[str, Numbers]:
    """Every figure of every resample, shape (resamples,); those of a class are named ``"auroc 1"``.

    Args:
        rows: The rows.
        weights: How often each row counts, shape (resamples, rows).
    """
    count, classes = weights.sum(axis=1), rows.shares.shape[1]
    right = (rows.guess == rows.truth).astype(np.float64)
    there = _by(rows.truth, weights, classes)
    hits, said = _by(rows.truth, weights * right, classes), _by(rows.guess, weights, classes)
    recall = _divide(hits, there)
    f1 = np.where(there > 0, _divide(2 * hits, there + said), np.nan)
    gaps = _by(bin_of(rows.confidence), weights * (rows.confidence - rows.hit), BINS)
    auroc = np.stack([_auroc(rows, number, weights) for number in range(classes)], axis=1)
    binary = classes == 2
    found = {
        "balanced_accuracy": _mean(recall),
        "f1": f1[:, 1] if binary else _mean(f1),
        "auroc": auroc[:, 1] if binary else _mean(auroc),
        "brier": weights @ rows.squares / count,
        "ece": np.abs(gaps).sum(axis=1) / count,
    }
    found |= {f"f1 {number}": f1[:, number] for number in range(classes)}
    return found | {f"auroc {number}": auroc[:, number] for number in range(classes)}


def _auroc(rows: Rows, number: int, weights: Numbers) -> Numbers:
    """One class against the rest: the chance that a row of it scores higher than another (Mann and Whitney, 1947)."""
    is_it = rows.truth == number
    if is_it.all() or not is_it.any():
        return np.full(len(weights), np.nan)
    scores, place = np.unique(rows.shares[:, number], return_inverse=True)
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
