"""Epsilon of charges as dp-accounting computes it, and how finely; `accounting` is what others call.

It takes two seconds to import and is imported when it is asked for.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.charges import Charge

if TYPE_CHECKING:
    from dp_accounting import PrivacyAccountant
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

_FINEST = 1e-4
"""The discretisation of privacy losses that dp-accounting takes by itself."""

_COARSENESS = 1e-6
"""The grid's step over mu^2 and mu, the scales of a loss: a finer one has millions of points and no better digits."""

_LEAST_DELTA = 1e-10
"""The least delta for sampled steps: below it the errors of Fourier transforms, up to about 1e-12, begin to count."""

_MOST_STEPS = 10**6
"""The most steps of which some are sampled: with ten million, such errors have come to whole units of epsilon."""

_LARGEST_RENYI = 1e5
"""The largest epsilon, as `_about` bounds it, of which the loss distribution of sampled steps is made."""

_FEW_ORDERS = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512)
"""Renyi orders that bound an epsilon well enough to choose a grid by it, in a tenth of the time of all orders."""


@lru_cache(maxsize=512)  # the ends between which a root is looked for are asked about twice
def rdp(charges: tuple[Charge, ...], delta: float) -> float:
    """Epsilon by Renyi differential privacy."""
    import dp_accounting
    from dp_accounting import rdp

    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    return _composed(rdp.RdpAccountant(neighboring_relation=relation), charges, delta)


def _about(charges: Sequence[Charge], delta: float) -> float:
    """A quick bound on epsilon, up to about a tenth above that of `rdp`."""
    import dp_accounting
    from dp_accounting import rdp

    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    return _composed(rdp.RdpAccountant(_FEW_ORDERS, relation), charges, delta)


@lru_cache(maxsize=512)  # the peers of a simulation ask the same
def pld_of_releases(charges: tuple[Charge, ...], delta: float, mu: float) -> float:
    """Epsilon by privacy loss distributions where nothing is sampled.

    Args:
        charges: Of sampling rate 1.
        delta: Between 0 and 1.
        mu: That of all of them together.
    """
    return _pld(charges, delta, max(_FINEST, _COARSENESS * (mu * mu + 10.0 * mu)))


@lru_cache(maxsize=512)  # the peers of a simulation ask the same
def pld_of_steps(charges: tuple[Charge, ...], delta: float) -> float:
    """Epsilon by privacy loss distributions where steps are sampled, right to about 1e-4 of itself and never too low.

    Raises:
        ConfigurationError: There are too many steps, or too little noise or delta, for it to be computed.
    """
    steps = sum(charge.steps for charge in charges)
    if delta < _LEAST_DELTA:
        raise ConfigurationError(
            f"delta {delta:g}: accountant pld resolves {_LEAST_DELTA:g} or more with sampling: use rdp"
        )
    if steps > _MOST_STEPS:
        raise ConfigurationError(f"steps {steps:,}: accountant pld counts up to {_MOST_STEPS:,} with sampling: use rdp")
    about = _about(charges, delta)
    if about <= 0.0:  # a delta that is larger than the steps' whole effect: nothing else is there to be resolved
        return 0.0
    if not about <= _LARGEST_RENYI:
        noise = min(charge.noise_multiplier for charge in charges)
        raise ConfigurationError(
            f"noise multiplier {noise:g} for {steps:,} steps: epsilon is in the thousands, beyond accountant pld: use "
            "rdp, or choose more noise"
        )
    # A grid of width g adds up to g^2 / 4 to the variance of each step's loss, against about (epsilon / 5)^2 of all
    # together; a much finer one has millions of points and takes minutes. Powers of two, so that epsilon falls evenly
    # with the noise while a root is looked for.
    grid = min(1e-2, max(1e-6, 1e-5 * about, 3e-3 * about / math.sqrt(steps)))
    return _pld(charges, delta, 2.0 ** math.floor(math.log2(grid)))


def _pld(charges: Sequence[Charge], delta: float, grid: float) -> float:
    import dp_accounting
    from dp_accounting.pld import privacy_loss_distribution

    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    whole = privacy_loss_distribution.identity(value_discretization_interval=grid)
    for charge in charges:
        if charge.sampling_rate < 1.0:
            losses = _one_step(charge.sampling_rate, charge.noise_multiplier, grid).self_compose(charge.steps)
        else:
            losses = privacy_loss_distribution.from_gaussian_mechanism(
                charge.noise_multiplier / math.sqrt(charge.steps),
                value_discretization_interval=grid,
                neighboring_relation=relation,
            )
        whole = whole.compose(losses)
    return float(whole.get_epsilon_for_delta(delta))


@lru_cache(maxsize=8)  # after each round a peer asks about the same kinds of steps, only more of them
def _one_step(sampling_rate: float, noise_multiplier: float, grid: float) -> PrivacyLossDistribution:
    """The privacy losses of one sampled step, which take longer to compute than to compose."""
    import dp_accounting
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier,
        value_discretization_interval=grid,
        sampling_prob=sampling_rate,
        neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    )


def _composed(accountant: PrivacyAccountant, charges: Sequence[Charge], delta: float) -> float:
    import dp_accounting

    with _quiet():
        for charge in charges:
            event: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(charge.noise_multiplier)
            if charge.sampling_rate < 1.0:
                event = dp_accounting.PoissonSampledDpEvent(charge.sampling_rate, event)
            accountant.compose(event, charge.steps)
        return float(accountant.get_epsilon(delta))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Within it dp-accounting does not log the Renyi orders that it leaves out: fewer orders only raise the bound."""
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
