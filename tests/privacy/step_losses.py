"""Epsilon of sampled steps by numerical integration of the two densities, for tests: nothing of it is in the package.

A step shows x, drawn from N(0, sigma^2) without the record, and from (1 - q) N(0, sigma^2) + q N(1, sigma^2) with it.
"""

import itertools
import math
from collections.abc import Iterable

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm


def delta_of_one(rate: float, sigma: float, epsilon: float) -> float:
    """The larger of the two integrals of max(0, p - e^epsilon q), with the record in p and with it in q."""

    def normal(x: float) -> float:
        return math.exp(-0.5 * (x / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi))

    def with_it(x: float) -> float:
        return (1 - rate) * normal(x) + rate * normal(x - 1)

    def excess(p, q) -> float:
        pieces = np.linspace(-12.0 * sigma, 1 + 12.0 * sigma, 60)
        return math.fsum(
            quad(lambda x: max(0.0, p(x) - math.exp(epsilon) * q(x)), low, high, epsabs=1e-15, epsrel=1e-11)[0]
            for low, high in itertools.pairwise(pieces)
        )

    return max(excess(with_it, normal), excess(normal, with_it))


def epsilon_of(steps: Iterable[tuple[float, float, int]], delta: float, width: float = 1e-3, points: int = 2**18):
    """Epsilon of steps (rate, sigma, number) from the distribution of their losses, neither rounded up nor down."""
    found = []
    for sign in (1.0, -1.0):
        spectrum = np.ones(points // 2 + 1, dtype=complex)
        for rate, sigma, number in steps:
            spectrum *= np.fft.rfft(_losses(rate, sigma, sign, width, points)) ** number
        mass = np.fft.irfft(spectrum, points)
        loss = np.fft.fftfreq(points, 1.0 / points) * width

        def delta_at(epsilon: float, mass=mass, loss=loss) -> float:
            over = loss > epsilon
            return float(np.sum(mass[over] * -np.expm1(epsilon - loss[over])))

        found.append(brentq(lambda epsilon: delta_at(epsilon) - delta, 0.0, points * width / 2.2))
    return max(found)


def _losses(rate: float, sigma: float, sign: float, width: float, points: int):
    """The probabilities of multiples of the width, negative ones from the end, as losses of one step.

    Each loss is shared by its two neighbors so that its mean stays.
    """
    edges = np.linspace(-11.0 * sigma, 1 + 11.0 * sigma, 400_001)
    middle = (edges[1:] + edges[:-1]) / 2.0
    ratio = np.log((1 - rate) + rate * np.exp((2.0 * middle - 1) / (2.0 * sigma**2)))
    without = norm.pdf(middle, 0.0, sigma)
    weight = without * (np.exp(ratio) if sign > 0 else 1.0) * (edges[1] - edges[0])
    place = sign * ratio / width
    low = np.floor(place).astype(int)
    mass = np.zeros(points)
    np.add.at(mass, low % points, weight * (low + 1 - place))
    np.add.at(mass, (low + 1) % points, weight * (place - low))
    return mass / mass.sum()
