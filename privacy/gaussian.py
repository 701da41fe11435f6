"""Gaussian differential privacy: the exact trade between epsilon and delta of a Gaussian mechanism.

A mechanism is mu-GDP when telling two neighbouring data sets apart from what it releases is at least as hard as
telling N(0, 1) from N(mu, 1). T releases of sensitivity S under noise of standard deviation s compose, adaptively
too, to mu = sqrt(T) S / s, and exactly

    delta(epsilon) = Phi(-epsilon / mu + mu / 2) - exp(epsilon) Phi(-epsilon / mu - mu / 2)

(Dong, Roth, Su, "Gaussian differential privacy", 2022, corollary 2.13; Balle, Wang, 2018, theorem 8).

With x = epsilon / mu - mu / 2 and y = x + mu, exp(epsilon) phi(y) = phi(x), so both terms share a factor phi(x) and
exp(epsilon) is never formed: the difference is phi(x) (R(x) - R(y)) with Mills' ratio R = (1 - Phi) / phi.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, log_ndtr, ndtri

from dpeer.exceptions import ConfigurationError

_ROOT = math.sqrt(0.5)
_PRECISE = 8.9e-16
"""The smallest relative tolerance that `brentq` takes."""


def delta(mu: float, epsilon: float) -> float:
    """The smallest delta at which a mu-GDP mechanism is (epsilon, delta)-private.

    Args:
        mu: 0 or more, may be infinite.
        epsilon: 0 or more.

    Raises:
        ConfigurationError: mu or epsilon is negative or not a number.
    """
    _check_mu(mu)
    _check_epsilon(epsilon)
    if mu == 0.0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    if epsilon == 0.0:
        return math.erf(mu / 2.0 * _ROOT)
    return math.exp(_log_delta(epsilon / mu - mu / 2.0, mu))


def epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which a mu-GDP mechanism is (epsilon, delta)-private; infinite for infinite mu.

    Raises:
        ConfigurationError: mu is negative or not a number, or delta is not between 0 and 1.
    """
    _check_mu(mu)
    check_probability(delta)
    if math.isinf(mu):
        return math.inf
    if mu == 0.0 or math.erf(mu / 2.0 * _ROOT) <= delta:
        return 0.0
    # Solved for x, whose scale is that of a standard normal whatever epsilon is. Without the subtracted term
    # delta = Phi(-x): that x is too large, and epsilon = 0 is too small.
    wanted = math.log(delta)
    lowest, highest = -mu / 2.0, max(-float(ndtri(delta)), -mu / 2.0)
    x = _root(lambda x: _log_delta(x, mu) - wanted, lowest, highest)
    return max(0.0, mu * (x + mu / 2.0))


def mu(epsilon: float, delta: float) -> float:
    """The largest mu whose mechanisms are (epsilon, delta)-private: the inverse of `epsilon`.

    Raises:
        ConfigurationError: epsilon is negative or not a number, or delta is not between 0 and 1.
    """
    _check_epsilon(epsilon)
    check_probability(delta)
    if math.isinf(epsilon):
        return math.inf
    least = 2.0 / _ROOT * float(erfinv(delta))  # of epsilon = 0
    if epsilon == 0.0:
        return least
    # Without the subtracted term epsilon = mu x + mu^2 / 2 with x = -Phi^-1(delta): a mu that is too small.
    x = -float(ndtri(delta))
    root = math.hypot(x, math.sqrt(2.0 * epsilon))
    low = max(least, 2.0 * epsilon / (root + x) if x > 0.0 else root - x)
    wanted = math.log(delta)

    def excess(mu: float) -> float:
        return _log_delta(epsilon / mu - mu / 2.0, mu) - wanted

    high = 2.0 * low
    while excess(high) < 0.0:
        high *= 2.0
    return _root(excess, low, high)


def check_probability(delta: float) -> None:
    """Refuse a delta that is not between 0 and 1.

    Raises:
        ConfigurationError: It is not.
    """
    if not 0.0 < delta < 1.0:
        raise ConfigurationError(f"delta {delta:g}: choose one above 0 and below 1, for example 1e-5")


def _log_delta(x: float, mu: float) -> float:
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


def _root(f: Callable[[float], float], low: float, high: float) -> float:
    # Where rounding puts an end on the wrong side, that end is the root.
    if f(low) == 0.0 or f(low) * f(high) > 0.0:
        return low if abs(f(low)) <= abs(f(high)) else high
    return float(brentq(f, low, high, xtol=1e-300, rtol=_PRECISE, maxiter=500))


def _check_mu(mu: float) -> None:
    if not mu >= 0.0:
        raise ConfigurationError(f"mu {mu:g}: choose 0 or more")


def _check_epsilon(epsilon: float) -> None:
    if not epsilon >= 0.0:
        raise ConfigurationError(f"epsilon {epsilon:g}: choose 0 or more")
