"""Statistics of the effect of federating: intervals of gains over rows and peers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any

from dpeer.results.effect import FEWEST_ROWS, Effect, Verdict, gain_text, verdict_text

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
        verdict: The verdict that follows from these.
    """

    gain: float
    low: float
    high: float
    differ: int
    verdict: Verdict


def find_gain(joined: Sequence[float], alone: Sequence[float], *, most_is_best: bool) -> Gain:
    """Compare two models on the same rows.

    Of right and wrong answers the interval is Agresti and Min's for matched proportions: half a row is added to each
    of the four counts, so that rows on which both agree do not pass for certainty. One model is called better only if
    an exact sign test of the rows on which they differ (McNemar's) agrees at 5 %. Of losses the interval is the paired
    bootstrap's over the rows (percentiles).

    Args:
        joined: The first model's figure of each row.
        alone: The second one's, in the same order.
        most_is_best: Whether a higher figure is better: of accuracies it is, of losses it is not.

    Raises:
        ValueError: No row is given, or not as many of both.

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
    of_answers = most_is_best and bool(np.isin(differences, (-1.0, 0.0, 1.0)).all())
    low, high = _of_answers(better, worse, len(differences)) if of_answers else _bootstrap(differences)
    clear = len(differences) >= FEWEST_ROWS and (low > 0 or high < 0)
    if clear and of_answers:
        clear = sign_test(better, worse) <= _LEVEL
    gain, low, high = (float(value) + 0.0 for value in (differences.mean(), low, high))  # 0.0 makes 0.0 of -0.0
    return Gain(gain, low, high, better + worse, _verdict(low, clear=clear))


def pooled(found: Sequence[Effect | None]) -> Effect | None:
    """The mean of the peers' gains with its 95 % interval and verdict.

    The interval is normal: the peers' rows are different ones, so their variances add up. Of right and wrong answers
    these follow from the rows on which two models differ, to which half a row of each of the four kinds is added once
    for all peers, as Agresti and Min (2005) do; and an exact sign test of all these rows must agree. Of losses they
    follow from the peers' own intervals.

    Args:
        found: Each peer's effect.

    Returns:
        None for fewer than two peers, or where not all have been compared, by the same measure, or if a summary lacks
        one of the numbers.
    """
    compared = [one for one in found if one is not None and one.verdict is not None]
    gains = [one.gain for one in compared if one.gain is not None]
    widths = [one.high - one.low for one in compared if one.high is not None and one.low is not None]
    alike = len({one.measure for one in compared}) == 1
    alike = alike and not (compared[0].of_accuracy and any(one.differ is None for one in compared))
    if not 2 <= len(found) == len(compared) or not alike or not len(gains) == len(widths) == len(compared):
        return None
    first = compared[0]
    gain = fmean(gains)
    center, halves = gain, [width / 2 for width in widths]
    if first.of_accuracy:
        parts = [_part_of_pool(one, 1 / len(compared)) for one in compared]
        center, halves = fmean(mean for mean, _ in parts), [half for _, half in parts]
    half = math.hypot(*halves) / len(halves)
    rows, differ = sum(one.rows or 0 for one in compared), sum(one.differ or 0 for one in compared)
    low, high = center - half, center + half
    clear = low > 0 or high < 0
    if clear and first.of_accuracy:
        better = sum(((one.differ or 0) + round((one.gain or 0.0) * (one.rows or 0))) // 2 for one in compared)
        clear = (better > differ - better) == (gain > 0) and sign_test(better, differ - better) <= _LEVEL
    return Effect(
        measure=first.measure, on=first.on, rows=rows, differ=differ, gain=gain, low=low, high=high,
        verdict=_verdict(gain, clear=clear),
    )  # fmt: skip


def pooled_text(found: Sequence[Effect | None]) -> str:
    """The gain of all peers together in a sentence, or why it has no verdict; empty if nothing can be computed."""
    one, compared = pooled(found), sum(other is not None and other.verdict is not None for other in found)
    if one is None:
        some = 0 < compared < len(found)
        return f"no verdict of all together: {compared} of {len(found)} peers are compared" if some else ""
    return f"{len(found)} peers together: {verdict_text(one)}; mean gain {gain_text(one)}"


def members_text(found: Mapping[int, Effect | None], members: Sequence[int]) -> str:
    """The gain of all members together in a sentence, and which compared peers are none any more.

    Args:
        found: Each peer's effect, by rank.
        members: The ranks in the last member list.
    """
    gone = [str(rank) for rank, one in sorted(found.items()) if rank not in members and one is not None and one.verdict]
    left = f"not counted, because no member any more: rank {', '.join(gone)}" if gone else ""
    return "; ".join(filter(None, (pooled_text([found.get(rank) for rank in members]), left)))


def sign_test(better: int, worse: int) -> float:
    """The two-sided p-value of so many rows of either kind if both kinds were equally likely."""
    from scipy.stats import binomtest

    return float(binomtest(better, better + worse).pvalue) if better + worse else 1.0


def _verdict(gain: float, *, clear: bool) -> Verdict:
    return ("improved" if gain > 0 else "worse") if clear else "inconclusive"


def _of_answers(better: int, worse: int, rows: int) -> tuple[float, float]:
    """Agresti and Min's interval of the difference of two shares of the same rows.

    Args:
        better: Rows on which the first alone is right.
        worse: Rows on which the second alone is right.
        rows: All rows.
    """
    total, apart, difference = rows + 2, better + worse + 1, (better - worse) / (rows + 2)
    half = NormalDist().inv_cdf(1 - _LEVEL / 2) * math.sqrt((apart / total - difference**2) / total)
    return max(-1.0, difference - half), min(1.0, difference + half)


def _part_of_pool(one: Effect, part: float) -> tuple[float, float]:
    """A peer's gain, and half of its interval, with this part of two rows more, on one of which the models differ."""
    rows, differ, gain = one.rows or 0, one.differ or 0, one.gain or 0.0
    total = rows + 2 * part
    mean = gain * rows / total
    return mean, NormalDist().inv_cdf(1 - _LEVEL / 2) * math.sqrt(((differ + part) / total - mean**2) / total)


def _bootstrap(differences: NDArray[Any]) -> tuple[float, float]:
    """The percentile interval of a mean, from resamples of its values."""
    import numpy as np

    values, counts = np.unique(differences, return_counts=True)
    # The sum over a resample of rows, by how often each value is in it.
    resamples = max(_FEWEST_RESAMPLES, min(_RESAMPLES, _DRAWS // len(values)))
    generator = np.random.default_rng(0)
    chunk = max(1, 2_000_000 // len(values))
    means = np.concatenate([
        generator.multinomial(len(differences), counts / len(differences), min(chunk, resamples - begun)) @ values
        for begun in range(0, resamples, chunk)
    ]) / len(differences)  # fmt: skip
    low, high = np.percentile(means, (100 * _LEVEL / 2, 100 * (1 - _LEVEL / 2)))
    return float(low), float(high)
