"""Accounting: the epsilon of composed Gaussian releases and Poisson-sampled steps, and the least noise for an epsilon.

* `exact`: the closed form of `gaussian_epsilon`, for releases that are not sampled;
* `pld`: privacy loss distributions, tight up to a discretisation that errs upwards, where something is sampled;
* `rdp`: Renyi differential privacy, an upper bound, to compare with papers that used it.

The last two are those of `dp-accounting`, which takes two seconds to import and is imported when it is needed. It is
given the noise over the sensitivity with add-or-remove adjacency: what makes two data sets differ is in the sensitivity
alone. (With replace-one its PLD doubles the sensitivity once more, and its RDP ignores the relation.)

The closed form: a mechanism is mu-GDP when telling two neighboring data sets apart from what it releases is at least
as hard as telling N(0, 1) from N(mu, 1). T releases of sensitivity S under noise of standard deviation s compose,
adaptively too, to mu = sqrt(T) S / s, and exactly

    delta(epsilon) = Phi(-epsilon / mu + mu / 2) - exp(epsilon) Phi(-epsilon / mu - mu / 2)

(Dong, Roth, Su, "Gaussian differential privacy", 2022, corollary 2.13; Balle, Wang, 2018, theorem 8). With
x = epsilon / mu - mu / 2 and y = x + mu, exp(epsilon) phi(y) = phi(x), so both terms share a factor phi(x) and
exp(epsilon) is never formed: the difference is phi(x) (R(x) - R(y)) with Mills' ratio R = (1 - Phi) / phi.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from scipy.special import erfcx, log_ndtr, ndtri

from dpeer.exceptions import ConfigurationError

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Accountant = Literal["tight", "rdp"]
"""`tight` is `exact` or `pld`, as the charges need it."""

_LEAST_DELTA = 1e-10
"""The least delta for `pld`: below it the errors of Fourier transforms, up to about 1e-12, begin to count."""

_MOST_STEPS = 10**6
"""The most steps for `pld`: with ten million, such errors have come to whole units of epsilon."""

_LARGEST = 1e5
"""The largest rough epsilon for `pld`: beyond it nothing is private, and losses need much memory."""

_SMALL = 0.1
"""Epsilons below it are computed to this one's absolute precision."""

_LEAST_NOISE, _MOST_NOISE = 1e-3, 1e9
"""Between which noise is looked for."""


@dataclass(frozen=True, order=True, config=ConfigDict(strict=True, allow_inf_nan=False))
class Charge:
    """Steps of the Poisson-subsampled Gaussian mechanism with one sampling rate and one noise multiplier.

    Each record is in a step with the sampling rate; its gradient is clipped, and the sum noised. Neighboring data sets
    differ in one record, present or not (add-or-remove), which moves the sum by at most the clip norm. A release at
    client level is a step with sampling rate 1, and s / S, the noise over the sensitivity, as its noise multiplier.

    Raises:
        pydantic.ValidationError: A value is out of its range.
    """

    sampling_rate: float = Field(gt=0, le=1)
    noise_multiplier: float = Field(gt=0)
    steps: int = Field(ge=0)


def by_kind(charges: Iterable[Charge]) -> Counter[tuple[float, float]]:
    """The number of steps by sampling rate and noise multiplier."""
    steps = Counter[tuple[float, float]]()
    for charge in charges:
        steps[charge.sampling_rate, charge.noise_multiplier] += charge.steps
    return steps


def merged(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """The same charges, sorted, with those of equal rate and noise added up.

    Composition does not depend on the order of steps, and so neither may the last digits of an epsilon.
    """
    return tuple(sorted(Charge(*kind, number) for kind, number in by_kind(charges).items() if number))


def tightest(charges: Iterable[Charge]) -> Literal["exact", "pld"]:
    """The method with the least bound that never lies below the truth: the closed form where nothing is sampled."""
    return "exact" if all(charge.sampling_rate == 1.0 for charge in charges) else "pld"


def total_epsilon(charges: Iterable[Charge], delta: float, accountant: Accountant = "tight") -> float:
    """The epsilon of the composition of all these charges, in whatever order.

    Raises:
        ConfigurationError: A value is out of its range, or the accountant cannot compute it.
    """
    if not 0.0 < delta < 1.0:
        raise ConfigurationError(f"delta {delta:g}: choose one above 0 and below 1, for example 1e-5")
    found = merged(charges)
    if accountant == "rdp":
        return _rdp(found, delta) if found else 0.0
    return _rough(found, delta) if tightest(found) == "exact" else _pld(found, delta)


def least_noise(
    charged: Callable[[float], Iterable[Charge]],
    target: float,
    delta: float,
    accountant: Accountant = "tight",
    *,
    digits: int,
) -> float:
    """The least noise multiplier, rounded up to so many digits, with which an epsilon stays within its target.

    `charged` gives the charges at a noise multiplier: some step, and the less the more noise.

    Raises:
        ConfigurationError: A value is out of its range, or no noise that can be computed with is enough.
    """
    from scipy.optimize import brentq  # 0.1 s of imports that only a private run needs

    if not (target > 0.0 and math.isfinite(target)):
        raise ConfigurationError(f"target epsilon {target:g}: choose a number above 0, for example 10")
    if not merged(charged(1.0)):
        raise ConfigurationError(f"target epsilon {target:g} for 0 releases needs no noise: choose at least 1 round")

    def excess(log: float, rough: bool = False) -> float:
        """The logarithm of the epsilon with a noise over the target: nearly a straight line in that of the noise."""
        charges = merged(charged(math.exp(log)))
        found = _rough(charges, delta) if rough else total_epsilon(charges, delta, accountant)
        return math.log(max(found, 1e-12) / target)

    least, most = math.log(_LEAST_NOISE), math.log(_MOST_NOISE)
    if excess(most, True) > 0.0:
        raise ConfigurationError(f"--target-epsilon {target:g}: no noise that can be computed with is enough")
    found = least if excess(least, True) <= 0.0 else float(brentq(excess, least, most, (True,), xtol=1e-14))
    if accountant == "rdp" or tightest(charged(1.0)) == "pld":
        low = high = found
        while excess(high) > 0.0:
            low, high = high, high + 0.2
        while low > least and excess(low) <= 0.0:
            low, high = low - 0.2, low
        found = float(brentq(excess, low, high, xtol=10.0**-digits / 9.0)) if excess(low) > 0.0 else high
    noise = round_up(math.exp(found), digits)
    while excess(math.log(noise)) > 0.0:  # a root may be a little low
        noise = round_up(noise * (1.0 + 10.0**-digits), digits)
    return noise


def round_up(value: float, digits: int) -> float:
    """The next value above, or this one, of so many significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return float(f"{math.ceil(value / step) * step:.{digits - 1}e}")


def _rough(charges: Sequence[Charge], delta: float) -> float:
    """Epsilon by the mu of Gaussian differential privacy: exact without sampling, its central limit with it.

    That limit (Bu et al., "Deep learning with Gaussian differential privacy", 2020) may lie on either side of the
    truth; sampling can only lower what all records would cost.
    """
    mu = 0.0
    for charge in charges:
        one = 1.0 / charge.noise_multiplier
        if charge.sampling_rate < 1.0 and one < 25.0:
            one = min(one, charge.sampling_rate * math.sqrt(math.expm1(one * one)))
        mu = math.hypot(mu, math.sqrt(charge.steps) * one)
    return gaussian_epsilon(mu, delta)


# Results are kept: the peers of a simulation ask the same, and a search for a root asks twice about its ends.


@lru_cache(maxsize=512)
def _pld(charges: tuple[Charge, ...], delta: float) -> float:
    """Epsilon by privacy loss distributions, right to about 4e-5 of itself and never too low."""
    steps = sum(charge.steps for charge in charges)
    if delta < _LEAST_DELTA:
        raise ConfigurationError(f"delta {delta:g}: accountant pld resolves {_LEAST_DELTA:g} or more: use rdp")
    if steps > _MOST_STEPS:
        raise ConfigurationError(f"steps {steps:,}: accountant pld counts up to {_MOST_STEPS:,}: use rdp")
    about = _rough(charges, delta)
    if about > _LARGEST:
        raise ConfigurationError(
            f"epsilon of about {about:.0e} for {steps:,} steps: beyond accountant pld, and no protection: choose more "
            "noise, or a smaller epsilon; or use rdp"
        )
    grid, last = min(max(about, _SMALL) / 8.0, 0.25), math.inf
    while True:
        # A power of two, so that epsilon falls evenly with the noise while a root is looked for.
        grid = 2.0 ** math.floor(math.log2(grid))
        found = pld_epsilon(charges, delta, grid)
        # The excess falls with the square of the grid: of what half the grid has moved, a third is left.
        if last - found <= 1e-4 * max(found, _SMALL):
            return found
        # A grid adds a fourth of its square to the variance of each step's loss: on this one that begins to be little.
        last, grid = found, min(grid / 2.0, 2.4e-2 * max(found, _SMALL) / math.sqrt(steps))


def pld_epsilon(charges: Sequence[Charge], delta: float, grid: float) -> float:
    """Epsilon of all charges by the composition of their privacy losses, discretized to this grid."""
    from dp_accounting.pld import privacy_loss_distribution

    whole = privacy_loss_distribution.identity(value_discretization_interval=grid)
    for charge in charges:
        rate, noise, steps = charge.sampling_rate, charge.noise_multiplier, charge.steps
        if rate < 1.0:
            whole = whole.compose(_losses(rate, noise, grid).self_compose(steps))
        else:
            whole = whole.compose(_losses(rate, noise / math.sqrt(steps), grid))
    return float(whole.get_epsilon_for_delta(delta))


@lru_cache(maxsize=8)  # after each round a peer asks about the same kinds of steps, only more of them
def _losses(rate: float, noise: float, grid: float) -> PrivacyLossDistribution:
    """The privacy losses of one step, which take longer to compute than to compose."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution.from_gaussian_mechanism(
        noise,
        value_discretization_interval=grid,
        sampling_prob=rate,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )


@lru_cache(maxsize=512)
def _rdp(charges: tuple[Charge, ...], delta: float) -> float:
    import dp_accounting
    from dp_accounting import NeighboringRelation, rdp

    accountant = rdp.RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.ERROR)  # it names the Renyi orders that it leaves out: fewer orders only raise the bound
    try:
        for charge in charges:
            event: dp_accounting.DpEvent = dp_accounting.GaussianDpEvent(charge.noise_multiplier)
            if charge.sampling_rate < 1.0:
                event = dp_accounting.PoissonSampledDpEvent(charge.sampling_rate, event)
            accountant.compose(event, charge.steps)
        return float(accountant.get_epsilon(delta))
    finally:
        log.setLevel(level)


_ROOT = math.sqrt(0.5)
_PRECISE = 8.9e-16
"""The smallest relative tolerance that `brentq` takes."""


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which a mu-GDP mechanism is (epsilon, delta)-private; infinite for infinite mu."""
    from scipy.optimize import brentq

    if math.isinf(mu):
        return math.inf
    if mu == 0.0 or math.erf(mu / 2.0 * _ROOT) <= delta:
        return 0.0
    # Solved for x, whose scale is that of a standard normal whatever epsilon is. Without the subtracted term
    # delta = Phi(-x): that x is too large, and epsilon = 0 is too small.
    wanted = math.log(delta)
    low, high = -mu / 2.0, max(-float(ndtri(delta)), -mu / 2.0)

    def excess(x: float) -> float:
        return log_delta(x, mu) - wanted

    if excess(low) * excess(high) < 0.0:
        x = float(brentq(excess, low, high, xtol=1e-300, rtol=_PRECISE, maxiter=500))
    else:  # rounding has put an end on the wrong side: that end is the root
        x = low if abs(excess(low)) <= abs(excess(high)) else high
    return max(0.0, mu * (x + mu / 2.0))


def log_delta(x: float, mu: float) -> float:
    """The logarithm of the least delta at epsilon = mu (x + mu / 2), for mu above 0."""
    y = x + mu
    if x < -1.0:
        # phi(x) R(x) is close to 1 and R(x) would overflow; here the terms differ enough to be subtracted as logs.
        first = float(log_ndtr(-x))
        second = _log_phi(x) + (math.log(_mills(y)) if y > -1.0 else float(log_ndtr(-y)) - _log_phi(y))
        return first + math.log(-math.expm1(min(second - first, -1e-300)))
    return _log_phi(x) + math.log(max(_mills(x) - _mills(y), 1e-300))


def _log_phi(x: float) -> float:
    return -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


def _mills(x: float) -> float:
    """(1 - Phi(x)) / phi(x)."""
    return math.sqrt(math.pi / 2.0) * float(erfcx(x * _ROOT))
