"""Statistics of one row of a comparison: mean, worst peer and difference to the reference, over seeds and peers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dpeer.experiments.outcomes import Measure, Result
from dpeer.experiments.statistics import Interval, interval

Rows = Mapping[str, Sequence[Result]]
"""By row, the results of one condition, one a seed, in the same order of seeds for all rows."""


@dataclass(frozen=True)
class Figures:
    """One row's figures, all of the same rounds; NaN where training has left no accuracy.

    Attributes:
        mean: The mean over seeds and peers.
        worst: The mean over seeds of the worst peer's.
        below: The share of peers below their own baseline, all peers of all seeds counting alike; None for the
            baseline itself, and where there is none.
        difference: The mean over seeds of the difference to the reference with the same seed; None for the reference
            itself.
    """

    mean: float
    worst: float
    below: float | None
    difference: Interval | None


def figures(row: str, rows: Rows, measure: Measure, baseline: str | None, reference: str, last: int = 1) -> Figures:
    """A row's figures.

    Args:
        row: Which.
        rows: The results of all rows.
        measure: Which of the accuracies.
        baseline: The row that trains alone, if there is one.
        reference: The row that the others are compared with.
        last: All figures are of a peer's mean over the evaluated ones of so many of the last rounds.
    """
    found = {name: [result.accuracies(measure, last) for result in rows[name]] for name in {row, reference}}
    here = found[row]
    difference = None
    if row != reference:
        pairs = zip(here, found[reference], strict=True)
        difference = interval([fmean(mine) - fmean(other) for mine, other in pairs])
    return Figures(
        mean=fmean(map(fmean, here)),
        worst=fmean(math.nan if any(map(math.isnan, values)) else min(values) for values in here),
        below=None if baseline in (None, row) else _below(here, [r.accuracies(measure, last) for r in rows[baseline]]),
        difference=difference,
    )


def _below(here: Sequence[Sequence[float]], alone: Sequence[Sequence[float]]) -> float | None:
    """The share of peers that are below themselves alone; None if that cannot be told of any."""
    both = zip((value for values in here for value in values), (v for values in alone for v in values), strict=True)
    # Who has no accuracy any more is below; where the baseline has none, nobody can tell.
    pairs = [pair for pair in both if not math.isnan(pair[1])]
    return fmean(not mine >= other for mine, other in pairs) if pairs else None


def others(results: Sequence[Result], last: int = 1) -> dict[str, float]:
    """The means over seeds of what else the peers were measured by, by name; what not all seeds have is left out."""
    found = [result.others(last) for result in results]
    return {name: fmean(one[name] for one in found) for name in found[0] if all(name in one for one in found)}


def majority(results: Sequence[Result]) -> float | None:
    """The mean over seeds of always answering each peer's most frequent training class; None if a run does not say."""
    shares = [result.majority for result in results]
    known = [share for share in shares if share is not None]
    return fmean(known) if len(known) == len(shares) else None
