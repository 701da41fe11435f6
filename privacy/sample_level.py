"""The guarantee of sample-level privacy: what protects one record, in how many steps, for what epsilon.

Gradients are clipped and noised in local training, so that whatever is computed from them (a body, a momentum, an
average) protects the record as well, against everyone. The head is trained on the same data, and `head` says how it
is kept from leaking more than the body does.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import accounting
from dpeer.privacy.accounting import Accountant, Charge
from dpeer.privacy.soundness import check_noise, check_probability, check_rate

Head = Literal["joint", "alternate", "post"]
Unit = Literal["record", "group"]
Ascent = Literal["previous", "same-batch"]

_DIGITS = 3
"""Of a noise multiplier that is found for a budget, rounded up; more of them take longer to find."""


@dataclass(frozen=True)
class Phase:
    """A part of a round in which steps are taken.

    Attributes:
        part: The trained part: "body", "head" or "model", or another name of an algorithm's own.
        steps: How many a round.
        looks: How many noised gradients each of them takes of its batch.
    """

    part: str
    steps: int
    looks: int = 1


def phases_of(steps: int, head_steps: int = 0) -> tuple[Phase, ...]:
    """The phases of a round with so many steps of the head, then of the body."""
    return tuple(phase for phase in (Phase("head", head_steps), Phase("body", steps)) if phase.steps)


@dataclass(frozen=True)
class SampleGuarantee:
    """One unit of a peer's data, protected by Gaussian noise on each sum of clipped gradients of a Poisson batch.

    Attributes:
        sampling_rate: q, the probability with which each unit is in a step's batch.
        noise_multiplier: sigma, the noise on a sum of clipped gradients over the clip norm.
        clip_norm: C, the largest L2 norm of one unit's gradient.
        delta: The probability that epsilon does not hold.
        phases: The steps of a round.
        head: `joint`: one gradient of body and head; `alternate`: steps of the head, then of the body; `post`: the head
            stays as it began until nothing leaves the peer any more.
        unit: The protected unit: one record, or one group of records, such as those of a patient.
        units: N, by which sums are divided with q: a public number, near the true number of units, or not.

    Raises:
        ConfigurationError: A value is out of its range.
    """

    sampling_rate: float
    noise_multiplier: float
    clip_norm: float
    delta: float
    phases: tuple[Phase, ...]
    head: Head = "joint"
    unit: Unit = "record"
    units: int = 1

    def __post_init__(self) -> None:
        check_rate(self.sampling_rate)
        check_noise(self.noise_multiplier, self.clip_norm)
        check_probability(self.delta)
        if self.head not in get_args(Head):
            raise ConfigurationError(f"--dp-head {self.head}: choose {', '.join(get_args(Head))}")
        if self.units < 1:
            raise ConfigurationError(f"--records {self.units}: choose 1 or more")
        if not self.compositions(1):
            raise ConfigurationError("steps=0: a round has at least 1 local step")

    @property
    def mechanism(self) -> dict[str, Any]:
        """The mechanism of every step, for the first line of the ledger, as plain JSON values."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "phases"}

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise on each coordinate of a step's sum of gradients: sigma C."""
        return self.noise_multiplier * self.clip_norm

    @property
    def words(self) -> str:
        """Unit, adversary and adjacency, for people."""
        unit = {"record": "one record", "group": "one group of records"}[self.unit]
        return f"{unit} of a peer's data, against everyone, neighbors included, add-or-remove"

    @property
    def stated(self) -> dict[str, str | int]:
        """N and its unit, as a model's card has them in place of the training records' true number."""
        return {"number": self.units, "of": self.unit}

    def charge(self, steps: int, looks: int = 1) -> Charge:
        """The charge of so many steps.

        Args:
            steps: 0 or more.
            looks: How many noised gradients each step takes of its batch. They are one Gaussian of sqrt(looks) times
                the sensitivity, and not so many steps: all of them see the same units.
        """
        return Charge(self.sampling_rate, self.noise_multiplier / math.sqrt(looks), steps)

    def charges(self, rounds: int) -> tuple[Charge, ...]:
        """The charges of so many rounds."""
        return tuple(self.charge(phase.steps * rounds, phase.looks) for phase in self.phases if phase.steps * rounds)

    def compositions(self, rounds: int) -> int:
        """The number of steps that so many rounds are charged for."""
        return sum(phase.steps for phase in self.phases) * rounds

    def moves(self, rounds: int) -> int:
        """How often so many rounds move the body by up to C: with each step but those of the head alone."""
        return sum(phase.steps for phase in self.phases if phase.part != "head") * rounds

    def epsilon(self, rounds: int, accountant: Accountant | None = None) -> float:
        """Epsilon at this guarantee's delta after so many rounds."""
        return accounting.total_epsilon(self.charges(rounds), self.delta, accountant)

    def noise_ratio(self, parameters: int) -> float:
        """The expected L2 norm of the noise on a batch's mean gradient over the clip norm: sigma sqrt(p) / (q N)."""
        if parameters < 1:
            raise ConfigurationError(f"parameters {parameters}: a body has at least 1")
        return self.noise_multiplier * math.sqrt(parameters) / (self.sampling_rate * self.units)

    def calibrated(self, epsilon: float, rounds: int, accountant: Accountant | None = None) -> SampleGuarantee:
        """The same guarantee with the least noise of three digits with which so many rounds stay within epsilon.

        Raises:
            ConfigurationError: epsilon or rounds is out of its range, or no noise is enough.
        """

        def charged(noise: float) -> tuple[Charge, ...]:
            return dataclasses.replace(self, noise_multiplier=noise).charges(rounds)

        noise = accounting.least_noise(charged, epsilon, self.delta, accountant, digits=_DIGITS)
        return dataclasses.replace(self, noise_multiplier=noise)
