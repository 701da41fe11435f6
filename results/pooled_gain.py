"""What joining was worth to all peers of a run together: their rows tell what those of one peer are too few for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean

from dpeer.results.worth import Verdict, Worth, gain_text

_LEVEL = 0.05


def together(found: Sequence[Worth | None], *, by_rows: bool = False) -> Worth | None:
    """The mean of the peers' gains with its 95 % interval, and what can be told of it.

    The interval is normal: the peers' rows are different ones, so their variances add up. Of right and wrong answers
    these follow from the rows on which two models differ, to which half a row of each of the four kinds is added once
    for all peers, as Agresti and Min (2005) do; and an exact sign test of all these rows must agree. Of losses they
    follow from the peers' own intervals.

    Args:
        found: What each peer has found.
        by_rows: Whether each row counts once in the mean, and not each peer.

    Returns:
        None if fewer than two peers have been compared, or not all by the same measure with the same algorithm, or if
        a summary lacks what it takes.
    """
    told = [one for one in found if one is not None and one.verdict is not None]
    gains = [one.gain for one in told if one.gain is not None]
    widths = [one.high - one.low for one in told if one.high is not None and one.low is not None]
    alike = len({(one.measure, one.algorithm) for one in told}) == 1
    alike = alike and not (told[0].of_accuracy and any(one.differ is None for one in told))
    if len(told) < 2 or not alike or not len(gains) == len(widths) == len(told):
        return None
    weights = [float(one.rows or 0) if by_rows else 1.0 for one in told]
    gain = fmean(gains, weights)
    center, halves = gain, [width / 2 for width in widths]
    if told[0].of_accuracy:
        parts = [_matched(one, 1 / len(told)) for one in told]
        center, halves = fmean([mean for mean, _ in parts], weights), [half for _, half in parts]
    half = math.hypot(*(weight * one for weight, one in zip(weights, halves, strict=True))) / sum(weights)
    rows, differ = sum(one.rows or 0 for one in told), sum(one.differ or 0 for one in told)
    low, high = center - half, center + half
    clear = low > 0 or high < 0
    if clear and told[0].of_accuracy:
        better = sum(((one.differ or 0) + round((one.gain or 0.0) * (one.rows or 0))) // 2 for one in told)
        clear = (better > differ - better) == (gain > 0) and sign_test(better, differ - better) <= _LEVEL
    verdict: Verdict = ("helped" if gain > 0 else "alone") if clear else "unclear"
    return Worth(
        measure=told[0].measure, on=told[0].on, algorithm=told[0].algorithm, rows=rows, differ=differ,
        gain=gain, low=low, high=high, verdict=verdict,
    )  # fmt: skip


def _matched(one: Worth, part: float) -> tuple[float, float]:
    """A peer's gain, and half of its interval, with this part of two rows more, on one of which the models differ."""
    rows, differ, gain = one.rows or 0, one.differ or 0, one.gain or 0.0
    total = rows + 2 * part
    mean = gain * rows / total
    return mean, NormalDist().inv_cdf(1 - _LEVEL / 2) * math.sqrt(((differ + part) / total - mean**2) / total)


def sentence(found: Sequence[Worth | None]) -> str:
    """What can be told of all peers together; empty if nothing can be computed."""
    one = together(found)
    if one is None:
        return ""
    joining = one.algorithm in (None, "local")
    words = {
        "helped": "joining helped" if joining else f"better than with {one.algorithm}",
        "alone": "better off alone" if joining else f"better off with {one.algorithm}",
    }
    said = words.get(str(one.verdict), "inconclusive")
    peers = sum(other is not None and other.verdict is not None for other in found)
    return f"{peers} peers together: {said}, mean gain {gain_text(one)}"


def sign_test(better: int, worse: int) -> float:
    """The two-sided p-value of so many rows of either kind if both kinds were equally likely."""
    from scipy.stats import binomtest

    return float(binomtest(better, better + worse).pvalue) if better + worse else 1.0
