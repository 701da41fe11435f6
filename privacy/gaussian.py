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

from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtri

_ROOT = math.sqrt(0.5)
_PRECISE = 8.9e-16
"""The smallest relative tolerance that `brentq` takes."""


def epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which a mu-GDP mechanism is (epsilon, delta)-private; infinite for infinite mu.

    Args:
        mu: 0 or more.
        delta: Between 0 and 1.
    """
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
