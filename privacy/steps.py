"""How the local steps of one peer are protected at sample level, and what a round's steps are charged for."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from scipy.optimize import brentq

from dpeer.exceptions import ConfigurationError
from dpeer.privacy import accounting, planning
from dpeer.privacy.accounting import Charge
from dpeer.privacy.gaussian import check_probability
from dpeer.privacy.sample import Head
from dpeer.privacy.sampling import check_rate

Unit = Literal["record", "group"]
Ascent = Literal["previous", "same-batch"]

_DIGITS = 3
"""Of a noise multiplier that is found for a budget, rounded up: the rest is worth less than 0.2 % of epsilon."""

SMALLEST = 1e-15
"""Of a clip norm and a noise multiplier: what follows from them is far from the limits of float32."""

_PLENTY = 1e3
"""A noise multiplier with which anything can be computed."""

_LEAST, _MOST = 1e-3, 1e9
"""Between which noise multipliers one is looked for."""


@dataclass(frozen=True)
class Mechanism:
    """What protects the steps of a run; the first line of its ledger, as plain JSON values.

    Attributes:
        sampling_rate: q, the probability with which each unit is in a step's batch.
        noise_multiplier: sigma, the noise on a sum of clipped gradients over the clip norm.
        clip_norm: C, the largest L2 norm of one unit's gradient.
        delta: The probability that epsilon does not hold.
        head: How the head is kept from telling more than the body does; see `SampleGuarantee`.
        unit: What is protected: one record, or one group of records, such as those of a patient.
        units: N, by which sums are divided with q: a public number, near the number of units that there are, or not.

    Raises:
        ConfigurationError: A value is out of its range.
    """

    sampling_rate: float
    noise_multiplier: float
    clip_norm: float
    delta: float
    head: Head
    unit: Unit
    units: int

    def __post_init__(self) -> None:
        check_rate(self.sampling_rate)
        for name, value in (("noise-multiplier", self.noise_multiplier), ("clip-norm", self.clip_norm)):
            if not SMALLEST <= value <= 1.0 / SMALLEST:
                raise ConfigurationError(
                    f"--{name} {value:g}: choose a number from {SMALLEST:g} to {1.0 / SMALLEST:g}, for example 1.0"
                )
        check_probability(self.delta)
        if self.head not in get_args(Head):
            raise ConfigurationError(f"--dp-head {self.head}: choose {', '.join(get_args(Head))}")
        if self.units < 1:
            raise ConfigurationError(f"--records {self.units}: choose 1 or more")

    @property
    def words(self) -> str:
        """Unit, adversary and adjacency, for people."""
        unit = {"record": "one record", "group": "one group of records"}[self.unit]
        return f"{unit} of a peer's data, against everyone, neighbors included, add-or-remove"

    @property
    def stated(self) -> dict[str, str | int]:
        """N and what it counts, as a model's card says them in place of the training records' true number."""
        return {"number": self.units, "of": self.unit}

    def charge(self, steps: int, looks: int = 1) -> Charge:
        """What so many steps are charged for.

        Args:
            steps: 0 or more.
            looks: How many noised gradients each step takes of its batch. They are one Gaussian of sqrt(looks) times
                the sensitivity, and not so many steps: all of them see the same units.
        """
        return Charge(self.sampling_rate, self.noise_multiplier / math.sqrt(looks), steps)


@dataclass(frozen=True)
class Phase:
    """A part of a round in which steps are taken.

    Attributes:
        part: Of what: "body", "head" or "model", or what else an algorithm calls it.
        steps: How many a round.
        looks: How many noised gradients each of them takes of its batch.
    """

    part: str
    steps: int
    looks: int = 1


def charges(mechanism: Mechanism, phases: Iterable[Phase], rounds: int) -> tuple[Charge, ...]:
    """What so many rounds of these phases are charged for."""
    return tuple(mechanism.charge(phase.steps * rounds, phase.looks) for phase in phases if phase.steps * rounds)


def least_noise(charged: Callable[[float], Sequence[Charge]], epsilon: float, delta: float) -> float:
    """The least noise multiplier of three digits with which charges stay within epsilon.

    Args:
        charged: The charges with a noise multiplier.
        epsilon: Above 0.
        delta: Between 0 and 1.

    Raises:
        ConfigurationError: There is none that can be computed with.
    """
    accountant = accounting.tightest(charged(_PLENTY))

    def beyond(noise: float) -> float:
        """The logarithm of what they come to over epsilon."""
        try:
            found = accounting.total_epsilon(charged(noise), delta, accountant)
        except ConfigurationError:  # so little noise that nothing is computed: far beyond
            return math.log(1e6)
        return math.log(max(found, 1e-12) / epsilon)

    accounting.total_epsilon(charged(_PLENTY), delta, accountant)  # a wrong delta, or too many steps, shows here
    low = high = 1.0
    while beyond(high) > 0.0:
        low, high = high, 2.0 * high
        if high > _MOST:
            raise ConfigurationError(f"--target-epsilon {epsilon:g}: no noise that can be computed with is enough")
    while low > _LEAST and beyond(low) <= 0.0:
        low, high = low / 2.0, low
    if low > _LEAST:
        logs = brentq(lambda log: beyond(math.exp(log)), math.log(low), math.log(high), xtol=1e-4)
        high = math.exp(logs)
    found = planning.up(high, _DIGITS)
    while beyond(found) > 0.0:  # the root may be a little low
        found = planning.up(found * (1.0 + 10.0**-_DIGITS), _DIGITS)
    return found
