"""95 % intervals: Wilson's for shares, the percentile bootstrap for everything else, in one pass over resamples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.training.measures.calibration import BINS, bin_of, confidences

Numbers = NDArray[np.float64]

Statistics = Callable[[Numbers], Mapping[str, Numbers]]
"""Gets how often each row counts in each resample, shape (resamples, rows); gives each figure's values, shape
(resamples,), NaN where a resample leaves it undefined."""

_SEED = 0
_Z = NormalDist().inv_cdf(0.975)
_MOST, _LEAST = 500, 100
_WORK = 10_000_000  # resamples times rows times classes: about a second
_CHUNK = 2_000_000  # of them in memory at once


def wilson(hits: int, count: int) -> dict[str, float | None]:
    """A share with Wilson's interval (1927): inside 0..1 and fair for few rows, and for shares of 0 and 1.

    Args:
        hits: How many rows have what is counted.
        count: Of how many, at least 1.
    """
    share, spread = hits / count, _Z**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    # Exactly 0 and 1 at the borders, where rounding would leave a little.
    low, high = (0.0 if hits == 0 else middle - half), (1.0 if hits == count else middle + half)
    return {"value": share, "low": low, "high": high}


def bootstrap(
    statistics: Statistics, rows: int, strata: NDArray[np.int64] | None = None
) -> dict[str, tuple[float | None, float | None]]:
    """Percentile intervals (Efron, 1979) from rows that are drawn again with replacement, always in the same way.

    Args:
        statistics: Computes all figures at once.
        rows: How many rows there are.
        strata: Each row's class, shape (rows,): rows are drawn within each class then, or a mean over classes would
            leave out a class of few rows in many resamples. None to draw from all rows.

    Returns:
        By name the ends of the interval; (None, None) where more than half of the resamples leave a figure undefined,
        or all give the same (an AUROC of 1): that would look like certainty.
    """
    found: dict[str, list[Numbers]] = {}
    groups = [np.arange(rows)] if strata is None else [np.flatnonzero(strata == one) for one in np.unique(strata)]
    # With much work fewer resamples are drawn; figures of classes make work for each of them.
    for weights in _drawn(rows, groups, min(_MOST, max(_LEAST, _WORK // (rows * len(groups))))):
        for name, values in statistics(weights).items():
            found.setdefault(name, []).append(values)
    return {name: _middle(np.concatenate(values)) for name, values in found.items()}


def _drawn(rows: int, groups: list[NDArray[np.int64]], resamples: int) -> Iterator[Numbers]:
    generator = np.random.default_rng(_SEED)
    at_once = max(1, _CHUNK // rows)
    for start in range(0, resamples, at_once):
        count = min(at_once, resamples - start)
        weights = np.empty((count, rows))
        for group in groups:
            size = len(group)
            index = generator.integers(0, size, (count, size)) + size * np.arange(count)[:, None]
            weights[:, group] = np.bincount(index.reshape(-1), minlength=count * size).reshape(count, size)
        yield weights


def _middle(values: Numbers) -> tuple[float | None, float | None]:
    known = values[np.isfinite(values)]
    if 2 * len(known) < len(values) or not len(known):
        return None, None
    low, high = np.quantile(known, (0.025, 0.975)).tolist()
    return (low, high) if low < high else (None, None)


def undefined(why: str) -> dict[str, Any]:
    """A figure that the rows do not define."""
    return {"value": None, "low": None, "high": None, "why": why}


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
    hits, guessed = _by(rows.truth, weights * right, classes), _by(rows.guess, weights, classes)
    recall = _divide(hits, there)
    f1 = np.where(there > 0, _divide(2 * hits, there + guessed), np.nan)
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
