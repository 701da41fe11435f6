"""Planned private runs at either level: their noise and epsilon, and whether training can survive the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.accounting import Accountant
from dpeer.privacy.client_level import Adjacency, Adversary, Guarantee, uniform_share
from dpeer.privacy.groups import of_group
from dpeer.privacy.sample_level import Head, SampleGuarantee, phases_of
from dpeer.privacy.soundness import check_adversary, check_delta, default_delta

ADVICE = (
    "use fewer shared parameters (adapters, or a small body on a frozen public one) or fewer rounds; or protect "
    "single records with --privacy sample, which is what eight hospitals want"
)
"""The advice at client level where `noise_over_drift` is above 1."""

DELTA = 1e-5
"""The delta where the number of protected units is unknown: right for up to 10,000."""

TARGETS = (1.0, 3.0, 8.0)
"""The epsilons whose noise an outlook at sample level shows for comparison."""


def noise_over_drift(ratio: float, peers: int, releases: int) -> float:
    """The noise left in the peers' average over the furthest that training can have moved it.

    Every release moves one body by at most C, so T rounds move the average of n bodies by at most T C: where all
    updates, of all peers and rounds, point the same way. Noise adds up as sqrt(T), and averages out as sqrt(n): what is
    left has norm s sqrt(p) sqrt(T / n). The quotient is ratio / sqrt(n T). Above 1 the noise is longer than the way
    even in this best of cases; real updates disagree and mixing is slower, so that below 1 training may still fail.

    Args:
        ratio: The norm of one release's noise over the clip norm.
        peers: n, whose bodies are averaged.
        releases: T.
    """
    return ratio / math.sqrt(peers * max(releases, 1))


def finite(value: float) -> float | None:
    """A number for JSON: None if it is infinite."""
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Plan:
    """The values of a planned run that both levels have; None is what is not known.

    Attributes:
        noise_multiplier: sigma; None for the least noise that keeps to `target_epsilon`.
        target_epsilon: The budget; None where the noise decides.
        rounds: T.
        delta: None for the default of so many units.
        clip_norm: C.
        size: Number of peers.
        parameters: Of the body, those that are shared.
    """

    noise_multiplier: float | None = None
    target_epsilon: float | None = None
    rounds: int | None = None
    delta: float | None = None
    clip_norm: float = 1.0
    size: int | None = None
    parameters: int | None = None

    @property
    def units(self) -> int | None:
        """The number of protected units, if it is known."""
        raise NotImplementedError

    @property
    def unit(self) -> str:
        """What a protected unit is called."""
        raise NotImplementedError

    @property
    def planned(self) -> int:
        """The number of planned rounds."""
        assert self.rounds is not None
        return self.rounds

    @property
    def chosen_delta(self) -> float:
        """The delta that was given, else the default for so many units."""
        if self.delta is not None:
            return self.delta
        return DELTA if self.units is None else default_delta(self.units)

    def warnings(self) -> list[str]:
        """Warnings about the delta.

        Raises:
            ConfigurationError: It is too large to mean anything.
        """
        warning = None if self.units is None else check_delta(self.chosen_delta, self.units, self.unit)
        return [] if warning is None else [warning]


@dataclass(frozen=True)
class ClientPlan(Plan):
    """A planned run that protects each peer's whole data set; None is what is not known.

    Attributes:
        dp_adversary: Against whom.
        dp_adjacency: The data sets that a peer's one is indistinguishable from.
        dp_min_honest: Honest peers in every average that an outsider sees.
        accountant: Which accountant computes epsilon.
    """

    dp_adversary: Adversary = "neighbor"
    dp_adjacency: Adjacency = "replace"
    dp_min_honest: int | None = None
    accountant: Accountant = "exact"

    @property
    def units(self) -> int | None:
        """See `Plan.units`: peers."""
        return self.size

    @property
    def unit(self) -> str:
        """See `Plan.unit`."""
        return "peer"

    def guarantee(self) -> Guarantee:
        """The guarantee with the noise multiplier that was given, else with the least noise for the target epsilon.

        Raises:
            ConfigurationError: The values contradict each other.
        """
        share = self._share()
        multiplier = 1.0 if self.noise_multiplier is None else self.noise_multiplier
        asked = Guarantee(multiplier, self.clip_norm, self.chosen_delta, self.dp_adversary, self.dp_adjacency, share)
        if self.noise_multiplier is not None:
            return asked
        assert self.target_epsilon is not None
        return asked.calibrated(self.target_epsilon, self.planned, self.accountant)

    def both(self, guarantee: Guarantee, releases: int | None = None) -> dict[str, float | None]:
        """Both epsilons of aggregate mode, by their JSON keys; empty in the other mode, infinite ones None."""
        if guarantee.adversary == "neighbor":
            return {}
        many = self.planned if releases is None else releases
        return {
            "epsilon_neighbor": finite(guarantee.epsilon(many, "neighbor", self.accountant)),
            "epsilon_aggregate": finite(guarantee.epsilon(many, "aggregate", self.accountant)),
        }

    def described(self, guarantee: Guarantee, releases: int | None = None) -> dict[str, Any]:
        """What the guarantee promises after so many releases (by default all), in plain JSON values."""
        many = self.planned if releases is None else releases
        return {
            "epsilon": finite(guarantee.epsilon(many, accountant=self.accountant)),
            "delta": guarantee.delta,
            "mode": "client",
            "adversary": guarantee.adversary,
            "adjacency": guarantee.adjacency,
            "noise_multiplier": guarantee.noise_multiplier,
            "rounds": many,
            "accountant": self.accountant,
            **self.both(guarantee, many),
        }

    def outlook(self, guarantee: Guarantee) -> dict[str, Any]:
        """How many releases the budget allows, and whether training can survive the noise, in plain JSON values."""
        assert self.size is not None
        assert self.parameters is not None
        fit, used = self._allowed(guarantee)
        ratio = guarantee.noise_ratio(self.parameters)
        left = noise_over_drift(ratio, self.size, used)
        return {
            **self.described(guarantee, used),
            "rounds": self.planned,
            "releases": used,
            "releases_that_fit": fit,
            "target_epsilon": self.target_epsilon,
            "size": self.size,
            "parameters": self.parameters,
            "clip_norm": self.clip_norm,
            "noise_std": guarantee.noise_std,
            "noise_norm_over_clip_norm": ratio,
            "noise_over_longest_way": left,
            "survives": left <= 1.0,
            "warnings": self.warnings(),
        }

    def _allowed(self, guarantee: Guarantee) -> tuple[int | None, int]:
        """The number of releases within the budget, if one is given, and that of a run of these rounds."""
        if self.target_epsilon is None:
            return None, self.planned
        if self.noise_multiplier is None and self.accountant != "exact":
            return self.planned, self.planned  # the noise was made for them; each count takes a second
        fit = guarantee.releases(self.target_epsilon, self.accountant)
        return fit, min(fit, self.planned)

    def _share(self) -> float:
        check_adversary(self.dp_adversary, self.dp_min_honest)
        if self.dp_min_honest is None:
            return 1.0
        if self.size is not None and self.dp_min_honest > self.size:
            raise ConfigurationError(
                f"--dp-min-honest {self.dp_min_honest}: more than the {self.size} peers (--size): choose at most that"
            )
        return uniform_share(self.dp_min_honest)


@dataclass(frozen=True)
class SamplePlan(Plan):
    """A planned run that protects each record; None is what is not known.

    Attributes:
        sampling_rate: q, the probability with which each record is in a step's batch.
        steps: Local steps of a peer in a round, with an alternate head those of the body.
        head_steps: With an alternate head those of the head.
        records: N of a peer, a number that all may know.
        patient_records: Of how many records of one patient epsilon is asked for.
        dp_head: How the head is trained.
        accountant: Which accountant computes epsilon.
    """

    sampling_rate: float | None = None
    steps: int | None = None
    head_steps: int | None = None
    records: int | None = None
    patient_records: int | None = None
    dp_head: Head = "joint"
    accountant: Accountant = "pld"

    @property
    def units(self) -> int | None:
        """See `Plan.units`: records."""
        return self.records

    @property
    def unit(self) -> str:
        """See `Plan.unit`."""
        return "record"

    def guarantee(self, target_epsilon: float | None = None) -> SampleGuarantee:
        """The guarantee with the noise multiplier that was given, else with the least noise for the target epsilon.

        Args:
            target_epsilon: Another target than the one that was given; the noise then follows from it.

        Raises:
            ConfigurationError: The values contradict each other.
        """
        assert self.sampling_rate is not None
        assert self.steps is not None
        multiplier = 1.0 if self.noise_multiplier is None else self.noise_multiplier
        if self.dp_head == "alternate" and not self.head_steps:
            raise ConfigurationError(
                "head-steps: with dp-head alternate the head has steps of its own, which are charged beside those of "
                "the body; say how many a round has, for example --head-steps 5"
            )
        if self.dp_head != "alternate" and self.head_steps:
            raise ConfigurationError(
                f"head-steps {self.head_steps}: only with dp-head alternate does the head have steps of its own"
            )
        phases = phases_of(self.steps, self.head_steps or 0)
        asked = SampleGuarantee(self.sampling_rate, multiplier, self.clip_norm, self.chosen_delta, phases, self.dp_head)
        target = target_epsilon
        if target is None and self.noise_multiplier is None:
            target = self.target_epsilon
        return asked if target is None else asked.calibrated(target, self.planned, self.accountant)

    def described(self, guarantee: SampleGuarantee, rounds: int | None = None) -> dict[str, Any]:
        """What the guarantee promises after so many rounds (by default all), in plain JSON values."""
        number = self.planned if rounds is None else rounds
        found = {
            "epsilon": finite(guarantee.epsilon(number, self.accountant)),
            "delta": guarantee.delta,
            "mode": "sample",
            "adversary": "everyone",
            "adjacency": "add-or-remove",
            "noise_multiplier": guarantee.noise_multiplier,
            "sampling_rate": guarantee.sampling_rate,
            "dp_head": guarantee.head,
            "rounds": number,
            "steps": guarantee.compositions(number),
            "accountant": self.accountant,
        }
        if self.patient_records is not None:
            charges = guarantee.charges(self.planned)
            patient = of_group(charges, guarantee.delta, self.patient_records, self.accountant)
            found |= {"patient_records": self.patient_records, "epsilon_of_patient": finite(patient)}
        return found

    def outlook(self, guarantee: SampleGuarantee) -> dict[str, Any]:
        """What follows for a site of so many records, and whether training can survive, in plain JSON values."""
        assert self.records is not None
        fit = None
        if self.target_epsilon is not None:
            made = self.noise_multiplier is None  # the noise was made for all rounds
            most = self.planned
            fit = most if made else guarantee.rounds_within(self.target_epsilon, most, self.accountant)
        used = self.planned if fit is None else fit
        return {
            **self.described(guarantee, used),
            "rounds": self.planned,
            "rounds_used": used,
            "rounds_that_fit": fit,
            "target_epsilon": self.target_epsilon,
            "size": self.size,
            "parameters": self.parameters,
            "records": self.records,
            "batch_size": guarantee.sampling_rate * self.records,
            "clip_norm": self.clip_norm,
            "noise_std": guarantee.noise_std,
            **self._noise(guarantee, used),
            "other_epsilons": [self._other(target, guarantee) for target in TARGETS],
            "warnings": self.warnings(),
        }

    def _noise(self, guarantee: SampleGuarantee, rounds: int) -> dict[str, Any]:
        """How long the noise is, and whether training can survive it."""
        assert self.size is not None
        assert self.parameters is not None
        assert self.records is not None
        ratio = guarantee.noise_ratio(self.parameters, self.records)
        # A step moves a body by the mean of its gradients, so by at most C on average, as at client level a release.
        left = noise_over_drift(ratio, self.size, guarantee.steps * rounds)
        return {"noise_norm_over_clip_norm": ratio, "noise_over_longest_way": left, "survives": left <= 1.0}

    def _other(self, target: float, planned: SampleGuarantee) -> dict[str, Any]:
        made = self.noise_multiplier is None and self.target_epsilon == target
        guarantee = planned if made else self.guarantee(target)
        found = {"target_epsilon": target, "noise_multiplier": guarantee.noise_multiplier}
        return {**found, **self._noise(guarantee, self.planned)}
