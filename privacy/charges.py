"""What local steps at sample level are charged for: sampling rate, noise and number.

A step draws every record with the same probability, independently of all others (a Poisson batch), clips the gradient
of each and adds Gaussian noise to their sum. Two data sets that must look alike differ in one record, which is there or
not (add-or-remove); it moves the sum by at most the clip norm. `accounting.composed` says what charges come to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dpeer.exceptions import ConfigurationError


@dataclass(frozen=True, order=True)
class Charge:
    """Steps of one sampling rate and one noise multiplier.

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
    """The same charges with those of equal rate and noise put together, in an order of their own.

    What charges come to does not depend on their order, and so neither must the last digits of an epsilon.
    """
    steps: dict[tuple[float, float], int] = {}
    for charge in charges:
        kind = (charge.sampling_rate, charge.noise_multiplier)
        steps[kind] = steps.get(kind, 0) + charge.steps
    return tuple(sorted(Charge(*kind, number) for kind, number in steps.items() if number))


def times(charges: Iterable[Charge], rounds: int) -> tuple[Charge, ...]:
    """The charges of so many rounds that are each charged like this."""
    return tuple(replace(charge, steps=charge.steps * rounds) for charge in charges)


def shuffled(noise_multiplier: float, epochs: int) -> Charge:
    """The charge of passes over shuffled data, of which a part that was begun counts as a whole one.

    A record is in one batch of a pass, and who sees all batches knows that it was in one: there is nothing to hide in,
    and each pass costs as much as a step that takes every record. (That is so where the record is replaced by one
    without a gradient: if it were left out, the batches after it would change, too.)
    """
    return Charge(1.0, noise_multiplier, epochs)
