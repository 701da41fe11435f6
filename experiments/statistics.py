"""Statistics over repetitions: pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.stats import t as student

WINDOW = 5
"""Over how many evaluated rounds an accuracy is averaged before it is held against a target."""


class Interval(NamedTuple):
    """A mean, and half the width of its 95 % interval (None for a single repetition)."""

    mean: float
    half: float | None


def interval(values: Sequence[float]) -> Interval:
    """Mean and 95 % interval of independent values by Student's t; none where a value is NaN."""
    count = len(values)
    if count < 2 or any(map(math.isnan, values)):
        return Interval(fmean(values), None)
    return Interval(fmean(values), float(student.ppf(0.975, count - 1)) * stdev(values) / count**0.5)


def first_reached(curve: Sequence[tuple[int, float]], target: float) -> int | None:
    """The first round at which the mean of the last `WINDOW` evaluated rounds is at least the target.

    Args:
        curve: Round and accuracy, in order; NaN where there was none, which reaches nothing.
        target: The accuracy to reach.

    Returns:
        How many rounds it took; None if it was not reached. (Fewer than `WINDOW` rounds never reach it.)
    """
    for end in range(WINDOW, len(curve) + 1):
        if fmean(value for _, value in curve[end - WINDOW : end]) >= target:
            return curve[end - 1][0] + 1
    return None
