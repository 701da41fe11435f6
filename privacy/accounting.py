"""Privacy accounting: epsilon of composed Gaussian releases and Poisson-sampled steps, and the noise for an epsilon.

* `exact`: the closed form of `gaussian`, for releases that are not sampled;
* `pld`: privacy loss distributions, tight up to a discretisation that errs upwards;
* `rdp`: Renyi differential privacy, an upper bound, to compare with papers that used it.

The last two are those of `dp-accounting`, which takes two seconds to import and is imported when it is asked for. It is
given the noise over the sensitivity with add-or-remove adjacency: what makes two data sets differ is in the sensitivity
alone. (With replace-one its PLD doubles the sensitivity once more, and its RDP ignores the relation.)
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

from scipy.optimize import brentq

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.privacy.gaussian import check_probability
from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.gaussian import mu as mu_of

if TYPE_CHECKING:
    from dp_accounting import PrivacyAccountant
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Accountant = Literal["exact", "pld", "rdp"]
ACCOUNTANTS: tuple[str, ...] = get_args(Accountant)

_LEAST_DELTA = 1e-15
"""The least delta for `pld`, which cuts off tails of about e^-50 and counts them as an infinite loss."""

_LEAST_SAMPLED_DELTA = 1e-10
"""The least delta for sampled steps: below it the errors of Fourier transforms, up to about 1e-12, begin to count."""

_MOST_STEPS = 10**6
"""The most steps of which some are sampled: with ten million, such errors have come to whole units of epsilon."""

_LARGEST_MU = 1e3
"""The largest mu for `pld`: beyond it its grid would be too coarse, and nothing is private anyway."""

_LARGEST_RENYI = 1e5
"""The largest epsilon, as `_rough_bound` has it, of which the loss distribution of sampled steps is made."""

_FINEST = 1e-4
"""The discretisation of privacy losses that dp-accounting takes by itself."""

_COARSENESS = 1e-6
"""The grid's step over mu^2 and mu, the scales of a loss: a finer one has millions of points and no better digits."""

_FEW_ORDERS = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512)
"""Renyi orders that bound an epsilon well enough to choose a grid by it, in a tenth of the time of all orders."""


@dataclass(frozen=True, order=True)
class Charge:
    """Steps of the Poisson-subsampled Gaussian mechanism with one sampling rate and one noise multiplier.

    A step clips each sampled record's gradient and noises the sum. Neighboring data sets differ in one record, present
    or not (add-or-remove), which moves the sum by at most the clip norm.

    Attributes:
        sampling_rate: q, the probability with which each record is in a step's batch; 1 where every step takes all.
        noise_multiplier: sigma, the noise on the sum of the gradients over the clip norm.
        steps: How many; 0 or more.

    Raises:
        ConfigurationError: A value is out of its range.
    """

    sampling_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        if not 0.0 < self.sampling_rate <= 1.0:
            raise ConfigurationError(
                f"sampling rate {self.sampling_rate:g}: choose a number above 0, at most 1, for example 0.05"
            )
        if not (self.noise_multiplier > 0.0 and math.isfinite(self.noise_multiplier)):
            raise ConfigurationError(
                f"noise multiplier {self.noise_multiplier:g}: choose a number above 0, for example 1.0"
            )
        if not isinstance(self.steps, int) or self.steps < 0:
            raise ConfigurationError(f"steps {self.steps}: choose a whole number, 0 or more")


def merged(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """The same charges, sorted, with those of equal rate and noise added up.

    Composition does not depend on the order of steps, and so neither may the last digits of an epsilon.
    """
    steps: dict[tuple[float, float], int] = {}
    for charge in charges:
        kind = (charge.sampling_rate, charge.noise_multiplier)
        steps[kind] = steps.get(kind, 0) + charge.steps
    return tuple(sorted(Charge(*kind, number) for kind, number in steps.items() if number))


def epsilon(
    multiplier: float, releases: int, delta: float, accountant: Accountant = "exact", sampling: float = 1.0
) -> float:
    """The epsilon of so many equal releases under Gaussian noise.

    Args:
        multiplier: s / S, the noise over the sensitivity (not over the clip norm).
        releases: T, 0 or more.
        delta: Between 0 and 1.
        accountant: One of `ACCOUNTANTS`.
        sampling: The probability with which each unit takes part in a release, independently (Poisson); `exact` takes
            1 only.

    Raises:
        ConfigurationError: A value is out of its range, or `exact` is asked about sampling.
    """
    _check(releases, delta, accountant, sampling)
    if not (multiplier > 0.0 and math.isfinite(multiplier)):
        raise ConfigurationError(f"noise over sensitivity {multiplier:g}: choose a number above 0")
    if sampling == 0.0:
        return 0.0
    return total_epsilon([Charge(sampling, multiplier, releases)], delta, accountant)


def total_epsilon(charges: Iterable[Charge], delta: float, accountant: Accountant = "pld") -> float:
    """The epsilon of the composition of all these charges, in whatever order their steps are taken.

    Args:
        charges: A release of a client-level mechanism is a step with sampling rate 1 and s / S as noise multiplier.
        delta: Between 0 and 1.
        accountant: One of `ACCOUNTANTS`; `exact` takes charges with sampling rate 1 only.

    Raises:
        ConfigurationError: A value is out of its range, or `exact` is asked about sampling.
    """
    check_probability(delta)
    found = merged(charges)
    for charge in found:
        _check(charge.steps, delta, accountant, charge.sampling_rate)
    if not found:
        return 0.0
    mus = [math.sqrt(charge.steps) / charge.noise_multiplier for charge in found]
    mu = mus[0] if len(mus) == 1 else math.hypot(*mus)
    if accountant == "exact":
        return epsilon_of(mu, delta)
    if accountant == "rdp":
        return _rdp(found, delta)
    if all(charge.sampling_rate == 1.0 for charge in found):
        if mu > _LARGEST_MU:
            number = sum(charge.steps for charge in found)
            raise ConfigurationError(
                f"noise over sensitivity {math.sqrt(number) / mu:g} for {number} releases: epsilon is in the hundred "
                "thousands, beyond accountant pld: use exact"
            )
        return _pld_of_releases(found, delta, mu)
    return _pld_of_steps(found, delta)


def tightest(charges: Iterable[Charge]) -> Accountant:
    """The accountant with the least bound that never lies below the truth: the closed form where nothing is sampled."""
    return "exact" if all(charge.sampling_rate == 1.0 for charge in charges) else "pld"


def calibrate(
    epsilon: float, delta: float, releases: int, accountant: Accountant = "exact", sampling: float = 1.0
) -> float:
    """The smallest noise over the sensitivity (s / S) with which so many releases stay within epsilon.

    Found to a relative 1e-6 and never below what is needed: `epsilon` of the result is at most the one asked for.
    The other arguments and errors are those of `epsilon`.

    Raises:
        ConfigurationError: Besides, epsilon is not above 0, or nothing is released.
    """
    _check(releases, delta, accountant, sampling)
    if not (epsilon > 0.0 and math.isfinite(epsilon)):
        raise ConfigurationError(f"target epsilon {epsilon:g}: choose a number above 0, for example 10")
    if releases == 0 or sampling == 0.0:
        raise ConfigurationError(
            f"releases {releases}, sampling {sampling:g}: no noise is needed; choose at least 1 round"
        )
    exact = math.sqrt(releases) / mu_of(epsilon, delta)

    def reached(multiplier: float) -> float:
        return _epsilon(multiplier, releases, delta, accountant, sampling)

    if accountant == "exact":
        return _safe(exact, epsilon, reached, 1e-15)
    low, high = exact / 2.0, exact
    if accountant == "pld" and sampling < 1.0:
        # Less noise than without sampling is enough, by orders of magnitude: `rdp` finds quickly where to look.
        high = calibrate(epsilon, delta, releases, "rdp", sampling)
        low = high / 1.2
    while reached(high) > epsilon:
        low, high = high, 2.0 * high
    while reached(low) <= epsilon:
        low, high = low / 2.0, low
    # Epsilon falls like a power of the noise: straight lines of the logarithms find it in few steps.
    found = brentq(
        lambda log: math.log(max(reached(math.exp(log)), 1e-12) / epsilon), math.log(low), math.log(high), xtol=2e-7
    )
    return _safe(math.exp(found), epsilon, reached, 4e-7)


_epsilon = epsilon
"""`calibrate` has an argument of that name."""


def _safe(multiplier: float, epsilon: float, reached: Callable[[float], float], step: float) -> float:
    """The first multiplier from this one on, in growing steps, that is within epsilon: a root may be a little low."""
    while reached(multiplier) > epsilon:
        multiplier *= 1.0 + step
        step *= 2.0
    return multiplier


def round_up(value: float, digits: int) -> float:
    """A value above 0, rounded up to so many significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return float(f"{math.ceil(value / step) * step:.{digits - 1}e}")


def _check(releases: int, delta: float, accountant: str, sampling: float) -> None:
    if accountant not in ACCOUNTANTS:
        raise UnknownName("accountant", accountant, ACCOUNTANTS)
    if releases < 0:
        raise ConfigurationError(f"releases {releases}: choose 0 or more")
    check_probability(delta)
    if accountant == "pld" and delta < _LEAST_DELTA:
        raise ConfigurationError(f"delta {delta:g}: accountant pld resolves {_LEAST_DELTA:g} or more: use exact or rdp")
    if not 0.0 <= sampling <= 1.0:
        raise ConfigurationError(f"sampling {sampling:g}: choose a probability, 0 to 1")
    if accountant == "exact" and sampling not in (0.0, 1.0):
        raise ConfigurationError(
            f"accountant exact with sampling {sampling:g}: the closed form knows no sampling: choose pld (tight) or rdp"
        )


# What follows calls dp-accounting. Results are kept: the peers of a simulation ask the same, and a search for a root
# asks twice about its ends.


@lru_cache(maxsize=512)
def _rdp(charges: tuple[Charge, ...], delta: float) -> float:
    import dp_accounting
    from dp_accounting import rdp

    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    return _composed(rdp.RdpAccountant(neighboring_relation=relation), charges, delta)


def _rough_bound(charges: Sequence[Charge], delta: float) -> float:
    """A quick bound on epsilon, up to about a tenth above that of `_rdp`."""
    import dp_accounting
    from dp_accounting import rdp

    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    return _composed(rdp.RdpAccountant(_FEW_ORDERS, relation), charges, delta)


@lru_cache(maxsize=512)
def _pld_of_releases(charges: tuple[Charge, ...], delta: float, mu: float) -> float:
    """Epsilon by privacy loss distributions where nothing is sampled; mu is that of all charges together."""
    return pld_epsilon(charges, delta, max(_FINEST, _COARSENESS * (mu * mu + 10.0 * mu)))


@lru_cache(maxsize=512)
def _pld_of_steps(charges: tuple[Charge, ...], delta: float) -> float:
    """Epsilon by privacy loss distributions of sampled steps, right to about 1e-4 of itself and never too low."""
    steps = sum(charge.steps for charge in charges)
    if delta < _LEAST_SAMPLED_DELTA:
        raise ConfigurationError(
            f"delta {delta:g}: accountant pld resolves {_LEAST_SAMPLED_DELTA:g} or more with sampling: use rdp"
        )
    if steps > _MOST_STEPS:
        raise ConfigurationError(f"steps {steps:,}: accountant pld counts up to {_MOST_STEPS:,} with sampling: use rdp")
    about = _rough_bound(charges, delta)
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
    return pld_epsilon(charges, delta, 2.0 ** math.floor(math.log2(grid)))


def pld_epsilon(charges: Sequence[Charge], delta: float, grid: float) -> float:
    """Epsilon of all charges by the composition of their privacy losses, discretized to this grid."""
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

    with _without_log():
        for charge in charges:
            event: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(charge.noise_multiplier)
            if charge.sampling_rate < 1.0:
                event = dp_accounting.PoissonSampledDpEvent(charge.sampling_rate, event)
            accountant.compose(event, charge.steps)
        return float(accountant.get_epsilon(delta))


@contextlib.contextmanager
def _without_log() -> Iterator[None]:
    """Within it dp-accounting does not log the Renyi orders that it leaves out: fewer orders only raise the bound."""
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
