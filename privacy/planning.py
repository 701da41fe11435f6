"""What a budget allows before anything is trained: noise, releases, and whether training can survive the noise."""

from __future__ import annotations

import dataclasses
import math

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import accounting
from dpeer.privacy.accounting import Accountant
from dpeer.privacy.guarantee import Adversary, Guarantee

ADVICE = (
    "use fewer shared parameters (adapters, or a small body on a frozen public one) or fewer rounds; or protect "
    "single records with --privacy sample, which is what eight hospitals want"
)
"""What to do where `drowning` is above 1."""


def epsilon(
    guarantee: Guarantee, releases: int, accountant: Accountant = "exact", adversary: Adversary | None = None
) -> float:
    """Epsilon after so many releases, against the guarantee's own adversary or another."""
    return accounting.epsilon(guarantee.ratio(adversary), releases, guarantee.delta, accountant)


def calibrated(guarantee: Guarantee, epsilon: float, releases: int, accountant: Accountant = "exact") -> Guarantee:
    """The same guarantee with the least noise that lets so many releases stay within epsilon.

    Args:
        guarantee: Everything but its noise multiplier is kept.
        epsilon: Against the guarantee's own adversary.
        releases: T, at least 1.
        accountant: One of `accounting.ACCOUNTANTS`.

    Raises:
        ConfigurationError: epsilon or releases is out of its range.
    """
    ratio = accounting.calibrate(epsilon, guarantee.delta, releases, accountant)
    # Rounded up to ten digits, so that what is printed or copied into a file does not fall short by a rounding.
    multiplier = up(ratio * guarantee.noise_multiplier / guarantee.ratio(), 10)
    return dataclasses.replace(guarantee, noise_multiplier=multiplier)


def releases(guarantee: Guarantee, epsilon: float, accountant: Accountant = "exact") -> int:
    """The most releases within epsilon by an accountant; `Guarantee.releases` is the same by `exact`."""
    low, high = 0, guarantee.releases(epsilon)
    if accountant == "exact":
        return high
    high += 1  # the others are never below the exact epsilon
    while high - low > 1:
        middle = (low + high) // 2
        within = accounting.epsilon(guarantee.ratio(), middle, guarantee.delta, accountant) <= epsilon
        low, high = (middle, high) if within else (low, middle)
    return low


def noise_ratio(guarantee: Guarantee, parameters: int) -> float:
    """The expected L2 norm of one message's noise over the clip norm: s sqrt(p) / C for p parameters.

    Raises:
        ConfigurationError: There are no parameters.
    """
    if parameters < 1:
        raise ConfigurationError(f"parameters {parameters}: a body has at least 1")
    return guarantee.noise_std * math.sqrt(parameters) / guarantee.clip_norm


def drowning(ratio: float, peers: int, releases: int) -> float:
    """How the noise left in the peers' average compares with the furthest that training can have moved it.

    Every release moves one body by at most C, so T rounds move the average of n bodies by at most T C: where all
    updates, of all peers and rounds, point the same way. Noise adds up as sqrt(T), and averages out as sqrt(n): what is
    left has norm s sqrt(p) sqrt(T / n). The quotient is ratio / sqrt(n T). Above 1 the noise is longer than the way
    even in this best of cases; real updates disagree and mixing is slower, so that below 1 training may still fail.

    Args:
        ratio: `noise_ratio`.
        peers: n, whose bodies are averaged.
        releases: T.
    """
    return ratio / math.sqrt(peers * max(releases, 1))


def finite(value: float) -> float | None:
    """A number for JSON: None if it is infinite."""
    return value if math.isfinite(value) else None


def up(value: float, digits: int) -> float:
    """A value above 0, rounded up to so many significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return float(f"{math.ceil(value / step) * step:.{digits - 1}e}")
