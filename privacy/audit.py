"""A lower bound on what a mechanism gives away, from what an adversary saw of many runs.

Two data sets that must look alike are each trained on many times, and the adversary says from what it saw which one it
was. Whoever is mu-Gaussian differentially private forces errors on every such test (Dong, Roth and Su, Gaussian
Differential Privacy, 2022, Definition 2.6): with false positive rate a, the false negative rate is at least
Phi(Phi^-1(1 - a) - mu). So errors that are rarer than mu allows, at some confidence, refute mu (Nasr et al., Tight
Auditing of Differentially Private Machine Learning, 2023, for this use of it).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, norm


@dataclass(frozen=True)
class Audit:
    """What the adversary's errors prove.

    Attributes:
        mu: With the confidence asked for, no smaller mu can be true; 0 if nothing is proven.
        false_positives: Share of the runs of the first data set that were taken for the second.
        false_negatives: Share of the runs of the second data set that were taken for the first.
        runs: Number of runs of each data set.
    """

    mu: float
    false_positives: float
    false_negatives: float
    runs: int


def audit(first: ArrayLike, second: ArrayLike, threshold: float, confidence: float = 0.95) -> Audit:
    """The lower bound that a test proves which takes a run for one of the second data set above the threshold.

    Args:
        first: What was computed from each run's view on the first data set, shape (runs,).
        second: The same on the second, shape (runs,).
        threshold: Chosen without looking at these values, or the confidence is not what it says.
        confidence: That the bound holds, more than 0 and less than 1.
    """
    here, there = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    wrong, missed = int((here > threshold).sum()), int((there <= threshold).sum())
    # Half of what may go wrong for each of the two rates.
    most_wrong, most_missed = (
        _at_most(k, n, (1 - confidence) / 2) for k, n in ((wrong, here.size), (missed, there.size))
    )
    bound = float(norm.isf(most_wrong) - norm.ppf(most_missed))
    return Audit(max(bound, 0.0), wrong / here.size, missed / there.size, here.size)


def _at_most(errors: int, runs: int, failing: float) -> float:
    """The upper Clopper-Pearson bound on the rate behind so many errors in so many runs."""
    return 1.0 if errors == runs else float(beta.isf(failing, errors + 1, runs - errors))
