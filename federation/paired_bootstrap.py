"""How much better one model does than another on the same rows, and whether that can be told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from dpeer.results.pooled_gain import sign_test
from dpeer.results.worth import FEWEST_ROWS, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RESAMPLES = 10_000
_FEWEST_RESAMPLES = 1_000
_DRAWS = 20_000_000
"""The most numbers drawn for an interval: of many rows fewer resamples will do."""

_LEVEL = 0.05


@dataclass(frozen=True)
class Gain:
    """A mean difference over rows, with its 95 % interval.

    Attributes:
        gain: The mean; positive where the first model is better.
        low: The lower end of the interval.
        high: The upper end.
        differ: The number of rows on which the two differ.
        verdict: What can be told of it.
    """

    gain: float
    low: float
    high: float
    differ: int
    verdict: Verdict


def find_gain(joined: Sequence[float], alone: Sequence[float], *, most_is_best: bool, seed: int = 0) -> Gain:
    """Compare two models on the same rows.

    Of right and wrong answers the interval is Agresti and Min's for matched proportions: half a row is added to each
    of the four counts, so that rows on which both agree do not pass for certainty. It is told that one model is better
    only if an exact sign test of the rows on which they differ (McNemar's) agrees at 5 %. Of losses the interval is
    the paired bootstrap's over the rows (percentiles).

    Args:
        joined: The first model's figure of each row.
        alone: The second one's, in the same order.
        most_is_best: Whether a higher figure is better: of accuracies it is, of losses it is not.
        seed: Of the resamples.

    Raises:
        ValueError: There is no row, or not as many of both.

    References:
        A. Agresti and Y. Min, Simple improved confidence intervals for comparing matched proportions, Statistics in
        Medicine 24, 2005.
        B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13 (the percentile interval).
        Q. McNemar, Note on the sampling error of the difference between correlated proportions, 1947.
    """
    import numpy as np  # `dpeer` itself imports no libraries

    if not len(joined) or len(joined) != len(alone):
        raise ValueError(f"{len(joined)} and {len(alone)} rows cannot be compared")
    differences = np.subtract(joined, alone) * (1.0 if most_is_best else -1.0)
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    of_answers = bool(np.isin(differences, (-1.0, 0.0, 1.0)).all())
    low, high = _matched(better, worse, len(differences)) if of_answers else _bootstrap(differences, seed)
    told = len(differences) >= FEWEST_ROWS and (low > 0 or high < 0)
    if told and of_answers:
        told = sign_test(better, worse) <= _LEVEL
    verdict: Verdict = ("helped" if low > 0 else "alone") if told else "unclear"
    gain, low, high = (float(value) + 0.0 for value in (differences.mean(), low, high))  # 0.0 makes 0.0 of -0.0
    return Gain(gain, low, high, better + worse, verdict)


def _matched(better: int, worse: int, rows: int) -> tuple[float, float]:
    """Agresti and Min's interval of the difference of two shares of the same rows.

    Args:
        better: Rows on which the first alone is right.
        worse: Rows on which the second alone is right.
        rows: All rows.
    """
    total, apart, difference = rows + 2, better + worse + 1, (better - worse) / (rows + 2)
    half = NormalDist().inv_cdf(1 - _LEVEL / 2) * math.sqrt((apart / total - difference**2) / total)
    return max(-1.0, difference - half), min(1.0, difference + half)


def _bootstrap(differences: NDArray[Any], seed: int) -> tuple[float, float]:
    """The percentile interval of a mean, from resamples of its values."""
    import numpy as np

    values, counts = np.unique(differences, return_counts=True)
    # The sum over a resample of rows, by how often each value is in it.
    resamples = max(_FEWEST_RESAMPLES, min(_RESAMPLES, _DRAWS // len(values)))
    generator = np.random.default_rng(seed)
    chunk = max(1, 2_000_000 // len(values))
    means = np.concatenate([
        generator.multinomial(len(differences), counts / len(differences), min(chunk, resamples - begun)) @ values
        for begun in range(0, resamples, chunk)
    ]) / len(differences)  # fmt: skip
    low, high = np.percentile(means, (100 * _LEVEL / 2, 100 * (1 - _LEVEL / 2)))
    return float(low), float(high)
