"""Guarantees: what Gaussian noise on clipped values protects, and for what epsilon, at client and at sample level.

At sample level gradients are clipped and noised in local training, so that whatever is computed from them (a body, a
momentum, an average) protects the record as well, against everyone. The head is trained on the same data: `head` says
how it is kept from leaking more than the body does.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

from dpeer.exceptions import BudgetTooSmall, ConfigurationError
from dpeer.privacy import accounting
from dpeer.privacy.accounting import Accountant, Charge

Head = Literal["joint", "alternate", "post"]
Unit = Literal["record", "group"]
Ascent = Literal["previous", "same-batch"]

_SMALLEST = 1e-15
"""Of a clip norm and a noise multiplier: what follows from them is far from the limits of float32."""


def default_delta(units: int) -> float:
    """min(1e-5, 1 / (10 N)) for N protected units (peers or records)."""
    return min(1e-5, 0.1 / units)


def check_delta(delta: float, units: int, unit: str = "peer") -> str | None:
    """A warning about a delta above 1 / (10 N), N the protected units; one of 1 / N or more is refused."""
    if delta >= 1.0 / units:
        raise ConfigurationError(
            f"delta {delta:g} with {units} {unit}s: at 1/{units} or more, publishing one {unit}'s data outright would "
            f"count as private: choose at most {0.1 / units:.4g}"
        )
    if delta > 0.1 / units:
        return f"delta {delta:g} is above 1/(10 N) = {0.1 / units:.4g} of {units} {unit}s: choose that or less"
    return None


@dataclass(frozen=True)
class GaussianGuarantee:
    """What both levels have in common.

    Attributes:
        noise_multiplier: sigma, the noise that protects over the clip norm C.
        digits: Of a noise multiplier that is found for a budget, rounded up.
        advice: What to do where training cannot survive the noise.

    Raises:
        ConfigurationError: A value is out of its range.
    """

    noise_multiplier: float
    clip_norm: float
    delta: float

    digits: ClassVar[int]
    advice: ClassVar[str]

    def __post_init__(self) -> None:
        for name, value in (("noise-multiplier", self.noise_multiplier), ("clip-norm", self.clip_norm)):
            if not _SMALLEST <= value <= 1.0 / _SMALLEST:
                raise ConfigurationError(
                    f"--{name} {value:g}: choose a number from {_SMALLEST:g} to {1.0 / _SMALLEST:g}, for example 1.0"
                )

    def charges(self, rounds: int) -> tuple[Charge, ...]:
        """Of so many rounds."""
        raise NotImplementedError

    def moves(self, rounds: int) -> int:
        """How often so many rounds move the body by up to C."""
        raise NotImplementedError

    @property
    def divisor(self) -> float:
        """What the noised value is divided by before it moves a body."""
        return 1.0

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise on each coordinate of a release, or of a step's sum: sigma C."""
        return self.noise_multiplier * self.clip_norm

    @property
    def mechanism(self) -> dict[str, Any]:
        """The mechanism of every release or step, for the first line of the ledger, as plain JSON values."""
        return {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name != "phases"}

    def epsilon(self, rounds: int, accountant: Accountant = "tight") -> float:
        """Epsilon at this guarantee's delta after so many rounds.

        Raises:
            ConfigurationError: rounds is negative, or the accountant cannot compute it.
        """
        return accounting.total_epsilon(self.charges(rounds), self.delta, accountant)

    def calibrated(self, epsilon: float, rounds: int, accountant: Accountant = "tight") -> Self:
        """The same guarantee with the least noise, of so many `digits`, that lets so many rounds stay within epsilon.

        Raises:
            ConfigurationError: epsilon or rounds is out of its range, or no noise is enough.
        """

        def charged(noise: float) -> tuple[Charge, ...]:
            return dataclasses.replace(self, noise_multiplier=noise).charges(rounds)

        noise = accounting.least_noise(charged, epsilon, self.delta, accountant, digits=self.digits)
        return dataclasses.replace(self, noise_multiplier=noise)

    def within(self, budget: float | None, rounds: int, *, noise_given: bool) -> Self:
        """The guarantee of a run: this one, or where its noise is not given the one that is calibrated for a budget.

        Raises:
            BudgetTooSmall: With the noise that is given not one round fits.
            ConfigurationError: See `calibrated`.
        """
        if budget is None or not noise_given:
            return self if budget is None else self.calibrated(budget, rounds)
        if (one := self.epsilon(1)) > budget:
            raise BudgetTooSmall(
                f"--target-epsilon {budget:g} allows not even one round with --noise-multiplier "
                f"{self.noise_multiplier:g}: one costs {one:.3g}; leave --noise-multiplier out and the noise follows "
                "from the budget"
            )
        return self

    def noise_ratio(self, parameters: int) -> float:
        """The expected L2 norm of the noise that moves a body once, over the clip norm: sigma sqrt(p) / divisor."""
        return self.noise_multiplier * math.sqrt(parameters) / self.divisor

    def noise_over_way(self, parameters: int, peers: int, rounds: int) -> float:
        """The noise left in the peers' average over the furthest that training can have moved it.

        T moves of a body by at most C move the average of n bodies by at most T C: where all updates, of all peers and
        rounds, point the same way. Noise adds up as sqrt(T), and averages out as sqrt(n): what is left has norm
        s sqrt(p) sqrt(T / n). The quotient is noise_ratio / sqrt(n T). Above 1 the noise is longer than the way even in
        this best of cases; real updates disagree and mixing is slower, so that below 1 training may still fail.
        """
        return self.noise_ratio(parameters) / math.sqrt(peers * max(self.moves(rounds), 1))


@dataclass(frozen=True)
class Guarantee(GaussianGuarantee):
    """A peer's whole data set, protected against neighbors by noise on each clipped update that it releases."""

    digits = 10
    advice = (
        "use fewer shared parameters (adapters, or a small body on a frozen public one) or fewer rounds; or protect "
        "single records with --privacy sample, which suits a few sites"
    )
    words = "one peer's whole data set, against a neighbor, replace-one"

    def charges(self, rounds: int) -> tuple[Charge, ...]:
        """A release a round: replacing the data set by any other moves each of them by at most S = 2 C."""
        return (Charge(1.0, self.noise_multiplier / 2.0, rounds),)

    def moves(self, rounds: int) -> int:
        """With each release."""
        return rounds


@dataclass(frozen=True)
class Phase:
    """Steps of a round; each takes `looks` noised gradients of its batch.

    They train the "body", "head" or "model", or a part that an algorithm names.
    """

    part: str
    steps: int
    looks: int = 1


def phases_of(steps: int, head_steps: int = 0) -> tuple[Phase, ...]:
    """The phases of a round with so many steps of the head, then of the body."""
    return tuple(phase for phase in (Phase("head", head_steps), Phase("body", steps)) if phase.steps)


@dataclass(frozen=True)
class SampleGuarantee(GaussianGuarantee):
    """One unit of a peer's data, protected by noise on each sum of clipped gradients of a Poisson batch.

    Attributes:
        sampling_rate: q, the probability with which each unit is in a step's batch.
        phases: The steps of a round.
        head: `joint`: one gradient of body and head; `alternate`: steps of the head, then of the body; `post`: the head
            stays as it began until nothing leaves the peer any more.
        units: N, by which sums are divided with q: a public number, near the true number of units, or not.
    """

    sampling_rate: float
    phases: tuple[Phase, ...]
    head: Head = "joint"
    unit: Unit = "record"
    units: int = 1

    digits = 3
    advice = (
        "use fewer trained parameters (a small body on a frozen public one, --dp-head post), fewer rounds, or larger "
        "batches in as many steps (--batch-size together with --local-steps)"
    )

    @property
    def divisor(self) -> float:
        """Q N, the expected number of units in a batch."""
        return self.sampling_rate * self.units

    @property
    def words(self) -> str:
        """Unit, adversary and adjacency, for people."""
        unit = {"record": "one record", "group": "one group of records"}[self.unit]
        return f"{unit} of a peer's data, against everyone, neighbors included, add-or-remove"

    def charge(self, steps: int, looks: int = 1) -> Charge:
        """The charge of so many steps.

        A step takes `looks` noised gradients of its batch. They are one Gaussian of sqrt(looks) times the sensitivity,
        and not so many steps: all of them see the same units.
        """
        return Charge(self.sampling_rate, self.noise_multiplier / math.sqrt(looks), steps)

    def charges(self, rounds: int) -> tuple[Charge, ...]:
        """Of so many rounds."""
        return tuple(self.charge(phase.steps * rounds, phase.looks) for phase in self.phases)

    def steps(self, rounds: int) -> int:
        """The number of steps that so many rounds are charged for."""
        return sum(phase.steps for phase in self.phases) * rounds

    def moves(self, rounds: int) -> int:
        """With each step but those of the head alone."""
        return sum(phase.steps for phase in self.phases if phase.part != "head") * rounds
