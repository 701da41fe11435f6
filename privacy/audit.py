"""Lower bounds on the privacy loss of a mechanism, from the errors of an adversary that sees many runs.

Runs are made on two neighboring data sets, and the adversary tells them apart by a statistic and a threshold. A private
mechanism forces errors on every such test; errors that are rarer, at some confidence, refute what is claimed (Nasr et
al., Tight Auditing of Differentially Private Machine Learning, 2023).

- Client level: mu of Gaussian differential privacy. With false positive rate a, the false negative rate is at least
  Phi(Phi^-1(1 - a) - mu) (Dong, Roth and Su, Gaussian Differential Privacy, 2022, Definition 2.6).
- Sample level: the noise multiplier of subsampled Gaussian steps, by the errors of the best test (`tradeoff`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import bisect
from scipy.stats import beta, norm

from dpeer.privacy import accounting
from dpeer.privacy.accounting import Charge
from dpeer.privacy.tradeoff import Tradeoff

Array = NDArray[np.float64]

_WEAKEST, _STRONGEST = 1 / 8, 64.0
"""Between which noise is looked for, over what was charged; beyond the bound stays where it is, and is none."""

_EVERY = 8
"""Of so many thresholds one is looked at: the others are as good as it."""

_ERRORS = 3.0
"""By how many standard errors luck may be against the test that is to find a defect."""


@dataclass(frozen=True)
class MuBound:
    """A lower bound at client level.

    Attributes:
        mu: With the confidence asked for, no smaller mu is true; 0 if nothing is proven.
        false_positives: Share of the runs on the first data set that were taken for the second.
        false_negatives: Share of the runs on the second data set that were taken for the first.
        runs: Number of runs on each data set.
    """

    mu: float
    false_positives: float
    false_negatives: float
    runs: int


def bound_mu(first: ArrayLike, second: ArrayLike, threshold: float, confidence: float = 0.95) -> MuBound:
    """The mu that a test proves which takes a run for one on the second data set above the threshold.

    Args:
        first: The statistic of each run on the first data set, shape (runs,).
        second: The same on the second, shape (runs,).
        threshold: Chosen without looking at these values, or the confidence is not what it says.
        confidence: That the bound holds, more than 0 and less than 1.
    """
    here, there = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    wrong, missed = int((here > threshold).sum()), int((there <= threshold).sum())
    # Half of the error probability for each of the two rates.
    most_wrong, most_missed = (
        float(_at_most(k, n, (1 - confidence) / 2)) for k, n in ((wrong, here.size), (missed, there.size))
    )
    bound = float(norm.isf(most_wrong) - norm.ppf(most_missed))
    return MuBound(max(bound, 0.0), wrong / here.size, missed / there.size, here.size)


@dataclass(frozen=True)
class StepBound:
    """A lower bound at sample level.

    Attributes:
        epsilon: With the confidence asked for, no smaller epsilon is true; 0 if nothing is proven.
        strength: The most that the noise can be, over what was charged; infinite if nothing is proven.
        refuted: Whether the errors are rarer than what was charged allows.
        false_positives: Share of the runs without the record that the test which proves most took for ones with it.
        false_negatives: Share of the runs with the record that it took for ones without it.
        runs: Number of runs of each data set.
    """

    epsilon: float
    strength: float
    refuted: bool
    false_positives: float
    false_negatives: float
    runs: int


@dataclass(frozen=True)
class Tests:
    """Tests to be made with so many runs.

    Attributes:
        thresholds: Of the sum of `tradeoff.statistic`, one for each test.
        margin: By how much errors would be too rare if noise had half its strength and luck was against the test that
            is there to find it; where that is not above 0, so many runs cannot be relied on to find it.
    """

    thresholds: tuple[float, ...]
    margin: float


def planned_tests(charges: Sequence[Charge], runs: int, confidence: float = 0.95) -> Tests:
    """Two tests: one shows best that noise has half its strength, the other what noise as strong as charged gives away.

    Args:
        charges: What each run is charged for.
        runs: How many runs of each data set there will be.
        confidence: That of `bound_steps`.
    """
    claimed, halved, doubled = Tradeoff(charges), Tradeoff(charges, 0.5), Tradeoff(_scaled(charges, 2.0))
    failing = (1.0 - confidence) / 4  # of two rates in two tests

    def best(real: Tradeoff, refuted: Tradeoff, errors: float) -> tuple[float, float]:
        """The test of which the errors are furthest below what is to be refuted, and by how much."""
        rates = np.stack([real.false_positives, real.false_negatives])[:, ::_EVERY]
        unlucky = rates + errors * np.sqrt(rates * (1.0 - rates) / runs)
        most = _at_most(np.minimum(unlucky * runs, runs), runs, failing)
        margins = refuted.least_missed(most[0]) - most[1]
        return float(real.thresholds[_EVERY * margins.argmax()]), float(margins.max())

    threshold, margin = best(halved, claimed, _ERRORS)
    return Tests((threshold, best(claimed, doubled, 0.0)[0]), margin)


def bound_steps(
    without: ArrayLike,
    within: ArrayLike,
    thresholds: Sequence[float],
    charges: Sequence[Charge],
    delta: float,
    confidence: float = 0.95,
) -> StepBound:
    """What tests prove that take the record to be there where the statistic is above a threshold.

    Args:
        without: What was computed from each run without the record, shape (runs,).
        within: The same of each run with it, shape (runs,).
        thresholds: One for each test, chosen without looking at these values, or the confidence is not what it says.
        charges: What each run was charged for.
        delta: With which epsilon is to be stated.
        confidence: That all bounds hold, more than 0 and less than 1.

    Returns:
        What the test has proven that proves most.
    """
    here, there = (np.sort(np.asarray(values, dtype=np.float64)) for values in (without, within))
    failing = (1.0 - confidence) / 2 / len(thresholds)  # what may go wrong is shared by both rates of all tests
    wrong = [here.size - int(np.searchsorted(here, threshold, side="right")) for threshold in thresholds]
    missed = [int(np.searchsorted(there, threshold, side="right")) for threshold in thresholds]
    most_wrong, most_missed = _at_most(wrong, here.size, failing), _at_most(missed, there.size, failing)

    def beyond(strength: float) -> Array:
        """By how much the errors of each test are rarer than noise of this strength allows, shape (tests,)."""
        return Tradeoff(_scaled(charges, strength)).least_missed(most_wrong) - most_missed

    low, high = math.log(_WEAKEST), math.log(_STRONGEST)
    against_most = beyond(_STRONGEST)
    epsilon, strength, most = 0.0, math.inf, int(against_most.argmax())
    if against_most.max() > 0.0:
        if beyond(_WEAKEST).max() <= 0.0:
            low = bisect(lambda log: float(beyond(math.exp(log)).max()), low, high, xtol=1e-4)
        strength = math.exp(low)
        most = int(beyond(strength).argmax())
        epsilon = accounting.total_epsilon(_scaled(charges, strength), delta)
    return StepBound(
        epsilon, strength, bool(beyond(1.0).max() > 0.0), wrong[most] / here.size, missed[most] / there.size,
        min(here.size, there.size),
    )  # fmt: skip


def _scaled(charges: Sequence[Charge], strength: float) -> list[Charge]:
    return [dataclasses.replace(charge, noise_multiplier=strength * charge.noise_multiplier) for charge in charges]


def _at_most(errors: ArrayLike, runs: int, failing: float) -> Array:
    """The upper Clopper-Pearson bound on the rate behind so many errors in so many runs."""
    found = np.asarray(errors, dtype=np.float64)
    out: Array = np.where(found >= runs, 1.0, beta.isf(failing, found + 1.0, np.maximum(runs - found, 1e-9)))
    return out
