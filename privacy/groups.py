"""Epsilon of a group of records, such as a patient with several rows, under steps that protect single records.

Steps at sample level promise an epsilon for one record. A patient with m records is told apart more easily, because a
step's batch may have several of them. How much more easily follows from the same steps, without any more noise:
`group_losses` says what one step shows of the group, and here the steps are composed. The general rule for groups (m
epsilon, at delta (e^(m epsilon) - 1) / (e^epsilon - 1)) holds as well; it lies above this, and needs the epsilon of one
record at a delta that is soon too small to be resolved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.privacy.accounting import ACCOUNTANTS, Accountant, composed
from dpeer.privacy.charges import Charge, merged
from dpeer.privacy.gaussian import check_probability
from dpeer.privacy.group_losses import Direction, GroupStep

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf

_LEAST_DELTA = 1e-10
"""The least delta: below it the errors of Fourier transforms, up to about 1e-12, begin to count."""

_MOST_STEPS = 10**6
"""The most steps, for the same reason."""

_NEGLECTED = 1e-6
"""The share of delta that tails may have that are counted as an infinite loss."""

_WIDEST = 1e5
"""The largest loss of one step, or of all releases together, up to which epsilon is computed."""

_POINTS = 2**22
"""The most points of a grid times the Gaussians of a step: one second."""


def of_group(charges: Iterable[Charge], delta: float, records: int, accountant: Accountant = "pld") -> float:
    """The epsilon of a group of so many records: how well data with all of them can be told from data with none.

    Args:
        charges: What the steps are charged for, one record being protected.
        delta: Between 0 and 1; where steps are sampled, and the group has more than one record, at least 1e-10.
        records: m, 1 or more. A group with fewer records is protected at least as well.
        accountant: One of `accounting.ACCOUNTANTS`; with sampling and more than one record `pld` only.

    Returns:
        The same as `accounting.composed` for one record; never too low, and too high by about 1e-4 of itself.

    Raises:
        ConfigurationError: A value is out of its range, or the accountant cannot compute it.
        UnknownName: There is no such accountant.
    """
    if records < 1:
        raise ConfigurationError(f"records of a group {records}: choose 1 or more")
    found = merged(charges)
    if records == 1:
        return composed(found, delta, accountant)
    if all(charge.sampling_rate == 1.0 for charge in found):
        # All of the group's records are in each release, so they move it by up to m clip norms.
        return composed([_together(charge, records) for charge in found], delta, accountant)
    if accountant not in ACCOUNTANTS:
        raise UnknownName("accountant", accountant, ACCOUNTANTS)
    if accountant != "pld":
        raise ConfigurationError(
            f"accountant {accountant} with {records} records of a group and sampling: choose pld, which knows groups"
        )
    check_probability(delta)
    if delta < _LEAST_DELTA:
        raise ConfigurationError(
            f"delta {delta:g}: accountant pld resolves {_LEAST_DELTA:g} or more with sampling: choose a larger one"
        )
    steps = sum(charge.steps for charge in found)
    if steps > _MOST_STEPS:
        raise ConfigurationError(
            f"steps {steps:,}: accountant pld counts up to {_MOST_STEPS:,} with sampling: choose fewer"
        )
    return _by_losses(found, delta, records)


def _together(charge: Charge, records: int) -> Charge:
    return Charge(charge.sampling_rate, charge.noise_multiplier / records, charge.steps)


@lru_cache(maxsize=512)  # the peers of a simulation ask the same
def _by_losses(charges: tuple[Charge, ...], delta: float, records: int) -> float:
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
