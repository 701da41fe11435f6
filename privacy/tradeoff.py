"""Trade-off function (f-DP) of Poisson-sampled Gaussian steps: error rates of the best test for one record.

A step shows x, the noised sum of gradients along the record's own, in units of the clip norm: x is normal around 0 with
standard deviation sigma where the record was not drawn, and around 1 where it was, which happens with probability q. By
Neyman and Pearson no test is better than one on the sum over the steps of

    L(x) = ln(1 - q + q exp((2 x - 1) / (2 sigma^2)))

and add-or-remove has no worse case than this pair (Zhu, Dong and Wang, Optimal Accounting of Differential Privacy via
Characteristic Function, 2022). Here the distribution of the sum is found by Fourier transforms, without
dp-accounting, whose epsilons an audit is to check.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft
from scipy.stats import norm

from dpeer.privacy.accounting import Charge

Array = NDArray[np.float64]

_BINS = 1 << 15
"""Into which sums are sorted: with twice as many, errors differ by less than 1e-5."""

_DEVIATIONS = 9.0
"""How far out the noise of a single step is looked at: beyond lies 10^-19 of it."""

_SPREAD = 12.0
"""How far out sums are looked at, in their standard deviations."""


def statistic(x: ArrayLike, charge: Charge) -> Array:
    """L(x) of single steps.

    Args:
        x: Noised sums along the record's gradient over the clip norm, any shape.
        charge: The charge of such a step; its number does not matter.
    """
    q, variance = charge.sampling_rate, charge.noise_multiplier**2
    ratio = (2.0 * np.asarray(x, dtype=np.float64) - 1.0) / (2.0 * variance)
    if q == 1.0:
        return ratio
    out: Array = np.logaddexp(math.log1p(-q), math.log(q) + ratio)
    return out


def _inverse(losses: Array, charge: Charge) -> Array:
    """The x of which `statistic` is this; minus infinity where none is so small."""
    q = charge.sampling_rate
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = losses + np.log1p(-(1.0 - q) * np.exp(-losses)) - math.log(q)
    ratio[~(losses > math.log1p(-q) if q < 1.0 else losses > -math.inf)] = -math.inf
    out: Array = charge.noise_multiplier**2 * ratio + 0.5
    return out


class Tradeoff:
    """The errors of the best tests after all these steps.

    Args:
        charges: What the steps are charged for.
        strength: How strong the noise really is, over what the charges say; the test does not know.

    Attributes:
        thresholds: Sums of L above which a test may take the record to be there, ascending, shape (tests,).
        false_positives: How often each test does so where it is not, shape (tests,).
        false_negatives: How often each does not where it is, shape (tests,).
    """

    def __init__(self, charges: Sequence[Charge], strength: float = 1.0) -> None:
        kinds = [charge for charge in charges if charge.steps]
        if not kinds:  # no step shows anything: guessing is all
            self.thresholds, self.false_positives, self.false_negatives = np.array([[0.0], [0.0], [1.0]])
            return
        low, width = _window(kinds, strength)
        first = 0.0
        without = within = np.ones(_BINS // 2 + 1, dtype=np.complex128)
        for charge in kinds:
            place, absent, present = _step(charge, strength, width)
            first += charge.steps * place
            without = without * fft.rfft(absent) ** charge.steps
            within = within * fft.rfft(present) ** charge.steps
        # Places count modulo the window, which holds all sums that matter: they are turned to ascend from `low` on.
        turn = math.floor((low - first) / width)
        without, within = (np.roll(fft.irfft(one, _BINS), -turn).clip(min=0.0) for one in (without, within))
        self.thresholds = first + width * (turn + np.arange(_BINS) + 0.5)
        self.false_positives = np.maximum(1.0 - np.cumsum(without), 0.0)
        self.false_negatives = np.minimum(np.cumsum(within), 1.0)

    def least_missed(self, false_positives: ArrayLike) -> Array:
        """The least rate of false negatives of any test that has at most so many false positives, the same shape."""
        found: Array = np.interp(
            np.asarray(false_positives, dtype=np.float64),
            [0.0, *self.false_positives[::-1], 1.0],
            [1.0, *self.false_negatives[::-1], 0.0],
        )
        return found


def _window(charges: Sequence[Charge], strength: float) -> tuple[float, float]:
    """Where sums of L lie, with next to all of their probability: the least, and the width of a bin."""
    far = np.linspace(-_DEVIATIONS, _DEVIATIONS, 4001)
    weights = norm.pdf(far) / norm.pdf(far).sum()
    least = most = variance = widest = 0.0
    means = np.zeros(2)
    for charge in charges:
        std = strength * charge.noise_multiplier
        absent, drawn = (statistic(place + std * far, charge) for place in (0.0, 1.0))
        q = charge.sampling_rate
        moments = [np.array([weights @ found, weights @ found**2]) for found in (absent, drawn)]
        both = (moments[0], (1.0 - q) * moments[0] + q * moments[1])
        means += [charge.steps * mean for mean, _ in both]
        variance += charge.steps * max(square - mean**2 for mean, square in both)
        least, most = least + charge.steps * absent[0], most + charge.steps * drawn[-1]
        widest = max(widest, drawn[-1] - absent[0])
    aside = _SPREAD * math.sqrt(variance) + widest
    low, high = max(least, means.min() - aside), min(most, means.max() + aside)
    return low, (high - low) / (_BINS - 16)


def _step(charge: Charge, strength: float, width: float) -> tuple[float, Array, Array]:
    """How L of one step is distributed: the middle of the first bin, and the masses without and with the record."""
    std = strength * charge.noise_multiplier
    low, high = statistic([-_DEVIATIONS * std, 1.0 + _DEVIATIONS * std], charge)
    count = math.ceil((high - low) / width) + 1
    edges = _inverse(low + width * (np.arange(count + 1) - 0.5), charge)
    edges[0], edges[-1] = -math.inf, math.inf
    q, absent = charge.sampling_rate, np.diff(norm.cdf(edges / std))
    present = (1.0 - q) * absent + q * np.diff(norm.cdf((edges - 1.0) / std))
    places = np.arange(count) % _BINS
    sorted_in = [np.bincount(places, mass, minlength=_BINS).astype(np.float64) for mass in (absent, present)]
    return low, sorted_in[0], sorted_in[1]
