"""The guarantee of sample-level privacy: what protects one record, in how many steps, for what epsilon.

Gradients are clipped and noised in local training, so that whatever is computed from them (a body, a momentum, an
average) protects the record as well, against everyone. The head is trained on the same data, and `head` says how it
is kept from telling more than the body does.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import accounting, planning
from dpeer.privacy.accounting import Accountant, Charge
from dpeer.privacy.gaussian import check_probability

Head = Literal["joint", "alternate", "frozen", "post"]


@dataclass(frozen=True)
class SampleGuarantee:
    """One record of a peer's data, protected by Gaussian noise on each sum of clipped gradients of a Poisson batch.

    Attributes:
        sampling_rate: q, the probability with which each record is in a batch.
        noise_multiplier: sigma, the noise on a sum of gradients over the clip norm.
        clip_norm: C, the largest L2 norm of one record's gradient.
        delta: The probability that epsilon does not hold.
        steps: Local steps of a peer in a round; with an alternate head those of the body.
        head: `joint`: one gradient of body and head; `alternate`: steps of the head, then of the body; `frozen`: the
            head stays as it began; `post`: the same, and it is trained when nothing leaves the peer any more.
        head_steps: With an alternate head its own steps in a round, else 0.

    Raises:
        ConfigurationError: A value is out of its range.
    """

    sampling_rate: float
    noise_multiplier: float
    clip_norm: float
    delta: float
    steps: int
    head: Head = "joint"
    head_steps: int = 0

    def __post_init__(self) -> None:
        Charge(self.sampling_rate, self.noise_multiplier, self.steps)
        if not (self.clip_norm > 0.0 and math.isfinite(self.clip_norm)):
            raise ConfigurationError(f"clip norm {self.clip_norm:g}: choose a number above 0, for example 1.0")
        check_probability(self.delta)
        if self.head not in get_args(Head):
            raise ConfigurationError(f"dp-head {self.head!r}: choose {', '.join(get_args(Head))}")
        if self.steps < 1:
            raise ConfigurationError(f"steps {self.steps}: a round has at least 1 local step")
        if self.head == "alternate" and self.head_steps < 1:
            raise ConfigurationError(
                "head-steps: with dp-head alternate the head has steps of its own, which are charged beside those of "
                "the body; say how many a round has, for example --head-steps 5"
            )
        if self.head != "alternate" and self.head_steps != 0:
            raise ConfigurationError(
                f"head-steps {self.head_steps}: only with dp-head alternate does the head have steps of its own"
            )

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise on each coordinate of a step's sum of gradients: sigma C."""
        return self.noise_multiplier * self.clip_norm

    @property
    def words(self) -> str:
        """Unit, adversary and adjacency, for people."""
        return "one record of a peer's data, against everyone, neighbors included, add-or-remove"

    def charges(self, rounds: int) -> tuple[Charge, ...]:
        """What so many rounds are charged for: with an alternate head the head's steps and the body's."""
        numbers = [number for number in (self.head_steps, self.steps) if number]
        return tuple(Charge(self.sampling_rate, self.noise_multiplier, number * rounds) for number in numbers)

    def compositions(self, rounds: int) -> int:
        """How many steps so many rounds are charged for."""
        return sum(charge.steps for charge in self.charges(rounds))

    def epsilon(self, rounds: int, accountant: Accountant = "pld") -> float:
        """Epsilon at this guarantee's delta after so many rounds."""
        return accounting.total_epsilon(self.charges(rounds), self.delta, accountant)


def calibrated(
    guarantee: SampleGuarantee, epsilon: float, rounds: int, accountant: Accountant = "pld"
) -> SampleGuarantee:
    """The same guarantee with the least noise with which so many rounds stay within epsilon.

    Args:
        guarantee: Everything but its noise multiplier is kept.
        epsilon: After all rounds.
        rounds: At least 1.
        accountant: One of `accounting.ACCOUNTANTS`.

    Raises:
        ConfigurationError: epsilon or rounds is out of its range.
    """
    noise = accounting.calibrate(
        epsilon, guarantee.delta, guarantee.compositions(rounds), accountant, guarantee.sampling_rate
    )
    return dataclasses.replace(guarantee, noise_multiplier=planning.up(noise, 10))


def rounds_within(guarantee: SampleGuarantee, epsilon: float, most: int, accountant: Accountant = "pld") -> int:
    """How many whole rounds stay within epsilon, of at most so many."""
    low, high, middle = 0, most + 1, most
    while high - low > 1:
        within = guarantee.epsilon(middle, accountant) <= epsilon
        low, high = (middle, high) if within else (low, middle)
        middle = (low + high) // 2
    return low


class Noised(Protocol):
    """What a step's noise follows from."""

    @property
    def sampling_rate(self) -> float:
        """q, the probability with which each record is in a batch."""

    @property
    def noise_multiplier(self) -> float:
        """sigma, the noise on a sum of gradients over the clip norm."""


def noise_ratio(guarantee: Noised, parameters: int, records: int) -> float:
    """The expected L2 norm of the noise on a batch's mean gradient over the clip norm: sigma sqrt(p) / (q N).

    The sum is divided by q N, which is expected to be in a batch, and never by what is in it.

    Args:
        guarantee: Sampling rate and noise.
        parameters: p, how many coordinates are looked at.
        records: N, a public or rounded number.

    Raises:
        ConfigurationError: There are no parameters or no records.
    """
    if parameters < 1:
        raise ConfigurationError(f"parameters {parameters}: a body has at least 1")
    if records < 1:
        raise ConfigurationError(f"records {records}: a peer has at least 1")
    return guarantee.noise_multiplier * math.sqrt(parameters) / (guarantee.sampling_rate * records)
