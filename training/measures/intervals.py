"""95 % intervals: Wilson's for shares, the percentile bootstrap for everything else, in one pass over resamples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]

Statistics = Callable[[Numbers], Mapping[str, Numbers]]
"""Gets how often each row counts in each resample, shape (resamples, rows); gives each figure's values, shape
(resamples,), NaN where a resample leaves it undefined."""

_SEED = 0
_Z = NormalDist().inv_cdf(0.975)
_MOST, _LEAST = 500, 100
_WORK = 10_000_000  # resamples times rows times classes: about a second
_CHUNK = 2_000_000  # of them in memory at once


UNDEFINED: dict[str, float | None] = {"value": None, "low": None, "high": None}
"""A figure that the rows do not define."""


def wilson(hits: int, count: int) -> dict[str, float | None]:
    """A share with Wilson's interval (1927): inside 0..1 and fair for few rows, and for shares of 0 and 1.

    Without any rows it is undefined.
    """
    if not count:
        return UNDEFINED
    share, spread = hits / count, _Z**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = math.sqrt(share * (1 - share) * spread + spread**2 / 4) / (1 + spread)
    # Exactly 0 and 1 at the borders, where rounding would leave a little.
    low, high = (0.0 if hits == 0 else middle - half), (1.0 if hits == count else middle + half)
    return {"value": share, "low": low, "high": high}


def bootstrap(
    statistics: Statistics, rows: int, strata: Whole | None = None
) -> dict[str, tuple[float | None, float | None]]:
    """Percentile intervals (Efron, 1979) from rows that are drawn again with replacement, always in the same way.

    Args:
        statistics: Computes all figures at once.
        rows: The number of rows.
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


def _drawn(rows: int, groups: list[Whole], resamples: int) -> Iterator[Numbers]:
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
