"""Epsilon of many releases or steps, and the noise for an epsilon, by three accountants.

* `exact`: the closed form of `gaussian`, for releases that are not sampled;
* `pld`: privacy loss distributions, tight up to a discretisation that errs upwards;
* `rdp`: Renyi differential privacy, an upper bound, to compare with papers that used it.

The last two are those of `dp-accounting`, which takes two seconds to import and is imported when it is asked for. It is
given the noise over the sensitivity with add-or-remove adjacency: what makes two data sets differ is in the sensitivity
alone. (With replace-one its PLD doubles the sensitivity once more, and its RDP ignores the relation.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal, get_args

from scipy.optimize import brentq

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.privacy import accountants
from dpeer.privacy.charges import Charge, merged
from dpeer.privacy.gaussian import check_probability
from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.gaussian import mu as mu_of

Accountant = Literal["exact", "pld", "rdp"]
ACCOUNTANTS: tuple[str, ...] = get_args(Accountant)

_LEAST_DELTA = 1e-15
"""The least delta for `pld`, which cuts off tails of about e^-50 and counts them as an infinite loss."""

_LARGEST_MU = 1e3
"""The largest mu for `pld`: beyond it its grid would be too coarse, and nothing is private anyway."""


def epsilon(
    multiplier: float, releases: int, delta: float, accountant: Accountant = "exact", sampling: float = 1.0
) -> float:
    """The epsilon of so many releases under Gaussian noise.

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
    return composed([Charge(sampling, multiplier, releases)], delta, accountant)


def composed(charges: Iterable[Charge], delta: float, accountant: Accountant = "pld") -> float:
    """The epsilon of all these charges together, in whatever order their steps are taken.

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
        return accountants.rdp(found, delta)
    if all(charge.sampling_rate == 1.0 for charge in found):
        if mu > _LARGEST_MU:
            number = sum(charge.steps for charge in found)
            raise ConfigurationError(
                f"noise over sensitivity {math.sqrt(number) / mu:g} for {number} releases: epsilon is in the hundred "
                "thousands, beyond accountant pld: use exact"
            )
        return accountants.pld_of_releases(found, delta, mu)
    return accountants.pld_of_steps(found, delta)


def tightest(charges: Iterable[Charge]) -> Accountant:
    """The accountant that says least of those that never say too little: the closed form where nothing is sampled."""
    return "exact" if all(charge.sampling_rate == 1.0 for charge in charges) else "pld"


def calibrate(
    epsilon: float, delta: float, releases: int, accountant: Accountant = "exact", sampling: float = 1.0
) -> float:
    """The smallest noise over the sensitivity (s / S) with which so many releases stay within epsilon.

    Found to a relative 1e-6 and never below what is needed: `epsilon` of the result is at most the one asked for.
    The other arguments and errors are those of `epsilon`.

    Raises:
        ConfigurationError: Besides, epsilon is not above 0, or there is nothing to release.
    """
    _check(releases, delta, accountant, sampling)
    if not (epsilon > 0.0 and math.isfinite(epsilon)):
        raise ConfigurationError(f"target epsilon {epsilon:g}: choose a number above 0, for example 10")
    if releases == 0 or sampling == 0.0:
        raise ConfigurationError("nothing is released, so there is no noise to find: choose at least 1 round")
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
