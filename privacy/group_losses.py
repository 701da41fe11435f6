"""How far a step can tell apart data with and without a group of records: the numbers that `groups` composes.

A group has m records, each in a Poisson batch with probability q, independently. So K of them are in it, K binomial,
and each moves the sum of clipped gradients by at most the clip norm. Without the group a step shows Gaussian noise
around what the other records say; with it, a mixture of Gaussians moved by K vectors. Such a pair is told apart best
where all vectors point the same way and are as long as they may be (Choquette-Choo, Ganesh, Steinke and Thakurta,
"Privacy amplification for matrix mechanisms", 2023, corollary 4.7). Then only the coordinate x in that direction
matters, in units of the clip norm:

    without the group   x ~ N(0, sigma^2)
    with it             x ~ sum over k of P(K = k) N(k, sigma^2)

What follows is the hockey-stick divergence of one from the other, delta as a function of epsilon, in both directions.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom, norm

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.charges import Charge

Direction = Literal["remove", "add"]
"""`remove`: how likely is what was seen with the group, against without it; `add`: the other way around."""

Floats = NDArray[np.float64]

_TABLE = 2**14
"""Points of the table in which the place of a loss is looked up before Newton's method makes it exact."""

_MOST = 1000
"""The most of a group's records in one batch that are looked at: the time grows with it."""

_NEWTON = 3
"""Steps of Newton's method: the error of the table, squared three times over, is below that of the numbers."""


class GroupStep:
    """One step, seen by somebody who knows everything but whether the group is there.

    Args:
        charge: Its sampling rate q and noise multiplier sigma; the number of steps does not matter here.
        records: m, how many records the group has.
        tail: Probability that may be counted as an infinite loss, so that no loss that matters lies further out.

    Attributes:
        neglected: The probability, below `tail`, of batches with more of the group's records than are looked at.

    Raises:
        ConfigurationError: A batch may have so many of the group's records that it would take long.
    """

    def __init__(self, charge: Charge, records: int, tail: float) -> None:
        self._sigma = charge.noise_multiplier
        most = min(records, int(binom.isf(tail / 2, records, charge.sampling_rate)) + 1)
        if most > _MOST:
            raise ConfigurationError(
                f"{records:,} records of a group with sampling rate {charge.sampling_rate:g}: a batch may have "
                f"{most:,} of them, and accountant pld looks at up to {_MOST:,}: choose fewer"
            )
        self._counts = np.arange(most + 1, dtype=np.float64)
        probabilities = binom.pmf(self._counts, records, charge.sampling_rate)
        self._counts = self._counts[probabilities > 0.0]
        self._logs = binom.logpmf(self._counts, records, charge.sampling_rate)
        self.neglected = float(binom.sf(most, records, charge.sampling_rate))
        width = self._sigma * float(norm.isf(tail))
        # Beyond `top` the mixture has no more than the tail, each component giving an equal part of it.
        shares = np.minimum(tail / len(self._counts) / np.exp(self._logs), 0.5)
        top = float(np.max(self._counts + self._sigma * norm.isf(shares)))
        self._low, self._high = -width, max(width, top)

    def __len__(self) -> int:
        """How many Gaussians the mixture has."""
        return len(self._counts)

    def range(self, direction: Direction) -> tuple[float, float]:
        """The smallest and the largest epsilon between which all that matters of `deltas` lies."""
        if direction == "remove":
            low, high = self._ratio(np.array([self._low, self._high]))[0]
        else:
            high, low = -self._ratio(np.array([self._low, -self._low]))[0]
        return float(low), float(high)

    def deltas(self, epsilons: Floats, direction: Direction) -> Floats:
        """The hockey-stick divergence, shape (epsilons,): the least delta for each epsilon, if there were one step.

        Args:
            epsilons: Ascending, shape (epsilons,); negative ones are meant as well.
            direction: Which of the two it is that the other one must not exceed e^epsilon times.
        """
        if direction == "remove":
            place = self._places(epsilons)
            found = np.full(len(place), self.neglected)
            for count, log in zip(self._counts, self._logs, strict=True):
                found += np.exp(log) * ndtr((count - place) / self._sigma)
            found -= np.exp(epsilons + log_ndtr(-place / self._sigma))
        else:
            place = self._places(-epsilons)
            found = ndtr(place / self._sigma)
            for count, log in zip(self._counts, self._logs, strict=True):
                found -= np.exp(epsilons + log + log_ndtr((place - count) / self._sigma))
        # It never grows with epsilon; what grows is rounded, and is taken for as large as what comes after it.
        return np.asarray(np.maximum.accumulate(np.clip(found, 0.0, 1.0)[::-1])[::-1])

    def _places(self, ratios: Floats) -> Floats:
        """The x at which the log-ratio of the densities has these values, as far as x matters, shape (ratios,)."""
        table = np.linspace(self._low, self._high, _TABLE)
        place = np.interp(ratios, self._ratio(table)[0], table)
        for _ in range(_NEWTON):
            found, slope = self._ratio(place)
            place = np.clip(place - (found - ratios) / slope, self._low, self._high)
        return place

    def _ratio(self, x: Floats) -> tuple[Floats, Floats]:
        """The log-ratio of the densities at x, with the group over without it, and its derivative, shapes of x."""
        variance = self._sigma**2

        def exponents() -> Iterator[tuple[float, Floats]]:
            for count, log in zip(self._counts, self._logs, strict=True):
                yield count, log + count * (x - count / 2.0) / variance

        largest = functools.reduce(np.maximum, (exponent for _, exponent in exponents()))
        total, weighted = np.zeros_like(x), np.zeros_like(x)
        for count, exponent in exponents():
            weight = np.exp(exponent - largest)
            total += weight
            weighted += count * weight
        return largest + np.log(total), np.maximum(weighted / total / variance, np.finfo(np.float64).tiny)
