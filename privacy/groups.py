"""Epsilon of a group of records, such as a patient with several rows, under steps that protect single records.

Steps at sample level promise an epsilon for one record. A patient with m records is found more easily, because a
step's batch may have several of them: each is in the batch with probability q, so K of them are, K binomial, and each
moves the sum of clipped gradients by at most the clip norm. Without the group a step shows Gaussian noise around what
the other records give; with it, a mixture of Gaussians moved by K vectors. Such a pair differs most where all
vectors point the same way and are as long as they may be (Choquette-Choo, Ganesh, Steinke and Thakurta, "Privacy
amplification for matrix mechanisms", 2023, corollary 4.7). Then only the coordinate x in that direction matters, in
units of the clip norm:

    without the group   x ~ N(0, sigma^2)
    with it             x ~ sum over k of P(K = k) N(k, sigma^2)

`GroupStep` has the hockey-stick divergences of this pair, and `of_group` composes the steps. The general rule for
groups (m epsilon, at delta (e^(m epsilon) - 1) / (e^epsilon - 1)) holds as well; it lies above this, and needs the
epsilon of one record at a delta that is soon too small to be resolved.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.privacy.accounting import ACCOUNTANTS, Accountant, Charge, check_resolution, merged, total_epsilon
from dpeer.privacy.gaussian import check_probability

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

Direction = Literal["remove", "add"]
"""`remove`: how likely is what was seen with the group, against without it; `add`: the other way around."""

Floats = NDArray[np.float64]

_TABLE = 2**14
"""Points of the table in which the place of a loss is looked up before Newton's method makes it exact."""

_MOST = 1000
"""The most of a group's records in one batch that are looked at: the time grows with it."""

_NEWTON = 3
"""Steps of Newton's method: the error of the table, squared three times over, is below that of the numbers."""

_NEGLECTED = 1e-6
"""The share of delta that tails may have that are counted as an infinite loss."""

_WIDEST = 1e5
"""The largest loss of one step, or of all releases together, up to which epsilon is computed."""

_POINTS = 2**22
"""The most points of a grid times the Gaussians of a step: one second."""


def of_group(charges: Iterable[Charge], delta: float, records: int, accountant: Accountant = "pld") -> float:
    """The epsilon of a group of so many records: how well a test separates data with all of them from data with none.

    Args:
        charges: What the steps are charged for, one record being protected.
        delta: Between 0 and 1; where steps are sampled, and the group has more than one record, at least 1e-10.
        records: m, 1 or more. A group with fewer records is protected at least as well.
        accountant: One of `accounting.ACCOUNTANTS`; with sampling and more than one record `pld` only.

    Returns:
        The same as `accounting.total_epsilon` for one record; never too low, and too high by about 1e-4 of itself.

    Raises:
        ConfigurationError: A value is out of its range, or the accountant cannot compute it.
        UnknownName: No accountant has the name.
    """
    if records < 1:
        raise ConfigurationError(f"records of a group {records}: choose 1 or more")
    found = merged(charges)
    if records == 1:
        return total_epsilon(found, delta, accountant)
    if all(charge.sampling_rate == 1.0 for charge in found):
        # All of the group's records are in each release, so they move it by up to m clip norms.
        return total_epsilon([_together(charge, records) for charge in found], delta, accountant)
    if accountant not in ACCOUNTANTS:
        raise UnknownName("accountant", accountant, ACCOUNTANTS)
    if accountant != "pld":
        raise ConfigurationError(
            f"accountant {accountant} with {records} records of a group and sampling: choose pld, which knows groups"
        )
    check_probability(delta)
    check_resolution(delta, sum(charge.steps for charge in found), ("choose a larger one", "choose fewer"))
    return by_losses(found, delta, records)


def _together(charge: Charge, records: int) -> Charge:
    return Charge(charge.sampling_rate, charge.noise_multiplier / records, charge.steps)


@functools.lru_cache(maxsize=512)  # the peers of a simulation ask the same
def by_losses(charges: tuple[Charge, ...], delta: float, records: int) -> float:
    """Epsilon on grids that become finer until a finer one would say hardly anything else."""
    steps = sum(charge.steps for charge in charges)
    sampled = [charge for charge in charges if charge.sampling_rate < 1.0]
    kinds = [GroupStep(charge, records, _NEGLECTED * delta / steps) for charge in sampled]
    mu = math.hypot(*(records * math.sqrt(c.steps) / c.noise_multiplier for c in charges if c.sampling_rate == 1.0))
    widest = max([mu * (mu + 20.0), *(end for kind in kinds for end in kind.range("remove"))])
    if widest > _WIDEST:
        noise = min(charge.noise_multiplier for charge in charges)
        raise ConfigurationError(
            f"noise multiplier {noise:g} for {steps:,} steps and {records:,} records of a group: epsilon is in the "
            "thousands, beyond accountant pld: choose more noise, or fewer records"
        )
    finest = widest * max(map(len, kinds)) / _POINTS
    grid = widest / 2**10
    while True:
        found = _composed([*zip(kinds, (charge.steps for charge in sampled), strict=True)], mu, delta, grid)
        # A grid of width g adds up to g^2 / 4 to the variance of each step's loss, against about (epsilon / 5)^2 of all
        # together. Powers of two, so that epsilon falls evenly with the noise.
        enough = max(finest, 1e-6, 1e-5 * found, min(1e-2, 3e-3 * found / math.sqrt(steps)))
        if not enough < grid / 2:
            return found
        grid = 2.0 ** math.floor(math.log2(enough))


def _composed(kinds: Sequence[tuple[GroupStep, int]], mu: float, delta: float, grid: float) -> float:
    """Epsilon of so many steps of each kind and of releases of this mu, all losses being rounded up to the grid."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    whole = pld.identity(value_discretization_interval=grid)
    if mu > 0.0:
        relation = NeighboringRelation.ADD_OR_REMOVE_ONE
        whole = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=grid, neighboring_relation=relation)
    for kind, steps in kinds:
        one = pld.PrivacyLossDistribution(_losses(kind, "remove", grid), _losses(kind, "add", grid))
        whole = whole.compose(one.self_compose(steps))
    return float(whole.get_epsilon_for_delta(delta))


def _losses(kind: GroupStep, direction: Direction, grid: float) -> PLDPmf:
    """The losses of one step, as probabilities of multiples of the grid that are nowhere less private than they."""
    from dp_accounting.pld import pld_pmf

    low, high = kind.range(direction)
    first, last = math.floor(low / grid), math.ceil(high / grid)
    deltas = kind.deltas(np.arange(first, last + 1, dtype=np.float64) * grid, direction)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, first, last, deltas)


class GroupStep:
    """One step, for an adversary that knows everything but whether the group is there.

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
        from scipy.stats import binom, norm  # slow to import, and only groups need it

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
