"""The guarantee of client-level privacy, which docs/privacy.md explains: noise, releases, epsilon."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import accounting
from dpeer.privacy.accounting import Accountant, Charge
from dpeer.privacy.gaussian import check_probability

_SMALLEST = 1e-30
"""Of what can be computed with, and means anything, in bodies of float32."""


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

    def charge(self, releases: int) -> Charge:
        """The charge of so many releases: replacing the data set by any other moves each of them by at most S = 2 C."""
        return Charge(1.0, self.noise_multiplier / 2.0, releases)

    def mu(self, releases: int) -> float:
        """Mu of Gaussian differential privacy after so many releases."""
        charge = self.charge(releases)
        return math.sqrt(charge.steps) / charge.noise_multiplier

    def epsilon(self, releases: int, accountant: Accountant | None = None) -> float:
        """Epsilon at this guarantee's delta after so many releases.

        Raises:
            ConfigurationError: releases is negative, or the accountant cannot compute it.
        """
        return accounting.total_epsilon([self.charge(releases)], self.delta, accountant)

    def calibrated(self, epsilon: float, releases: int, accountant: Accountant | None = None) -> Guarantee:
        """The same guarantee with the least noise of ten digits that lets so many releases stay within epsilon.

        Raises:
            ConfigurationError: epsilon or releases is out of its range.
        """

        def charged(noise: float) -> list[Charge]:
            return [dataclasses.replace(self, noise_multiplier=noise).charge(releases)]

        noise = accounting.least_noise(charged, epsilon, self.delta, accountant, digits=10)
        return dataclasses.replace(self, noise_multiplier=noise)

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
