"""The guarantee of client-level privacy, which docs/privacy.md explains: noise, releases, epsilon."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import accounting
from dpeer.privacy.accounting import Accountant, round_up
from dpeer.privacy.gaussian import check_probability
from dpeer.privacy.gaussian import mu as mu_of

_SMALLEST = 1e-30
"""Of what can be computed with, and means anything, in bodies of float32."""

_MOST = 10**15
"""Releases: beyond it floating point numbers cannot count them."""


@dataclass(frozen=True)
class Guarantee:
    """A peer's whole data set, protected against neighbors by Gaussian noise on each clipped update that it releases.

    Attributes:
        noise_multiplier: sigma, the noise that protects over the clip norm.
        clip_norm: C, the largest L2 norm of an update.
        delta: The probability that epsilon does not hold.

    Raises:
        ConfigurationError: A value is out of its range.
    """

    noise_multiplier: float
    clip_norm: float
    delta: float

    def __post_init__(self) -> None:
        for name, value in (("noise multiplier", self.noise_multiplier), ("clip norm", self.clip_norm)):
            if not (value > 0.0 and math.isfinite(value)):
                raise ConfigurationError(f"{name} {value:g}: choose a number above 0, for example 1.0")
        for name, value in (("clip norm", self.clip_norm), ("noise", self.noise_multiplier * self.clip_norm)):
            if not _SMALLEST <= value <= 1 / _SMALLEST:
                raise ConfigurationError(
                    f"{name} {value:g}: float32 bodies need one from {_SMALLEST:g} to {1 / _SMALLEST:g}"
                )
        check_probability(self.delta)

    @property
    def noise_std(self) -> float:
        """The standard deviation s of the noise on each coordinate of a message: sigma C."""
        return self.noise_multiplier * self.clip_norm

    @property
    def sensitivity(self) -> float:
        """S, how far a release can move in L2 when the data set is replaced by any other: 2 C."""
        return self.clip_norm * 2.0

    @property
    def ratio(self) -> float:
        """The noise over the sensitivity, s / S: the multiplier to account with."""
        return self.noise_std / self.sensitivity

    def mu(self, releases: int) -> float:
        """Mu of Gaussian differential privacy after so many releases.

        Args:
            releases: T, 0 or more.

        Raises:
            ConfigurationError: releases is negative.
        """
        if releases < 0:
            raise ConfigurationError(f"releases {releases}: choose 0 or more")
        return math.sqrt(releases) / self.ratio

    def epsilon(self, releases: int, accountant: Accountant = "exact") -> float:
        """Epsilon at this guarantee's delta after so many releases.

        Raises:
            ConfigurationError: releases is negative, or the accountant cannot compute it.
        """
        return accounting.epsilon(self.ratio, releases, self.delta, accountant)

    def releases(self, epsilon: float) -> int:
        """The most releases after which epsilon is still at most this.

        Raises:
            ConfigurationError: epsilon is negative or not finite.
        """
        if not math.isfinite(epsilon):
            raise ConfigurationError(f"epsilon {epsilon:g}: choose a finite number, 0 or more")
        most = min((mu_of(epsilon, self.delta) * self.ratio) ** 2, float(_MOST))
        count = math.floor(most)
        # A root found to the last digit may lie on either side of a whole number; `epsilon` is what a run goes by.
        if count < _MOST and self.epsilon(count + 1) <= epsilon:
            count += 1
        elif count > 0 and self.epsilon(count) > epsilon:
            count -= 1
        return count

    def calibrated(self, epsilon: float, releases: int, accountant: Accountant = "exact") -> Guarantee:
        """The same guarantee with the least noise that lets so many releases stay within epsilon.

        Args:
            epsilon: Above 0.
            releases: T, at least 1.
            accountant: One of `accounting.ACCOUNTANTS`.

        Raises:
            ConfigurationError: epsilon or releases is out of its range.
        """
        ratio = accounting.calibrate(epsilon, self.delta, releases, accountant)
        # Rounded up to ten digits, so that what is printed or copied into a file does not fall short by a rounding.
        return dataclasses.replace(self, noise_multiplier=round_up(ratio * self.noise_multiplier / self.ratio, 10))

    def noise_ratio(self, parameters: int) -> float:
        """The expected L2 norm of one message's noise over the clip norm: s sqrt(p) / C for p parameters.

        Raises:
            ConfigurationError: parameters is below 1.
        """
        if parameters < 1:
            raise ConfigurationError(f"parameters {parameters}: a body has at least 1")
        return self.noise_std * math.sqrt(parameters) / self.clip_norm

    @property
    def words(self) -> str:
        """Unit, adversary and adjacency, for people."""
        return "one peer's whole data set, against a neighbor, replace-one"
