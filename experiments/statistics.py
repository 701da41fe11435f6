"""Statistics of one row of a comparison over seeds and peers: means, worst peer, difference to the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.stats import t as student

from dpeer.experiments.outcomes import Measure, Result

ResultsByRow = Mapping[str, Sequence[Result]]
"""By row, the results of one condition, one a seed, in the same order of seeds for all rows."""


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


@dataclass(frozen=True)
class RowFigures:
    """One row's figures, all of the same rounds; NaN where training has left no accuracy.

    Attributes:
        mean: The mean over seeds and peers.
        worst: The mean over seeds of the worst peer's.
        below: The share of peers below their own baseline, all peers of all seeds counting alike; None for the
            baseline itself, and without one.
        difference: The mean over seeds of the difference to the reference with the same seed; None for the reference
            itself.
    """

    mean: float
    worst: float
    below: float | None
    difference: Interval | None


def figures(row: str, rows: ResultsByRow, measure: Measure, baseline: str | None, reference: str) -> RowFigures:
    """A row's figures.

    Args:
        row: Which.
        rows: The results of all rows.
        measure: Which of the accuracies.
        baseline: The row that trains alone, if any does.
        reference: The row that the others are compared with.
    """
    found = {name: [result.accuracies(measure) for result in rows[name]] for name in {row, reference}}
    here = found[row]
    difference = None
    if row != reference:
        pairs = zip(here, found[reference], strict=True)
        difference = interval([fmean(mine) - fmean(other) for mine, other in pairs])
    return RowFigures(
        mean=fmean(map(fmean, here)),
        worst=fmean(math.nan if any(map(math.isnan, values)) else min(values) for values in here),
        below=None if baseline in (None, row) else _below(here, [r.accuracies(measure) for r in rows[baseline]]),
        difference=difference,
    )


def _below(here: Sequence[Sequence[float]], alone: Sequence[Sequence[float]]) -> float | None:
    """The share of peers below their own baseline; None where no baseline has an accuracy."""
    both = zip((value for values in here for value in values), (v for values in alone for v in values), strict=True)
    pairs = [pair for pair in both if not math.isnan(pair[1])]
    return fmean(not mine >= other for mine, other in pairs) if pairs else None  # NaN is below


def others(results: Sequence[Result]) -> dict[str, float]:
    """The means over seeds of the other metrics, by name; those that not all seeds have are left out."""
    found = [result.others() for result in results]
    return {name: fmean(one[name] for one in found) for name in found[0] if all(name in one for one in found)}


def majority(results: Sequence[Result]) -> float | None:
    """The mean over seeds of always answering each peer's most frequent training class; None without classes."""
    found = [result.majority for result in results]
    known = [value for value in found if value is not None]
    return fmean(known) if len(known) == len(found) else None
