"""A planned run at sample level: what is known of it, and what follows, before anything is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpeer.privacy import planning, sample
from dpeer.privacy.accounting import Accountant
from dpeer.privacy.groups import of_group
from dpeer.privacy.plan import Plan
from dpeer.privacy.planning import finite
from dpeer.privacy.sample import Head, SampleGuarantee

TARGETS = (1.0, 3.0, 8.0)
"""The epsilons of which an outlook says what they would cost."""


@dataclass(frozen=True)
class SamplePlan(Plan):
    """What is known of a run that protects each record; None is what is not known.

    Attributes:
        sampling_rate: q, the probability with which each record is in a step's batch.
        steps: Local steps of a peer in a round, with an alternate head those of the body.
        head_steps: With an alternate head those of the head.
        records: N of a peer, a number that all may know.
        patient_records: Of how many records of one patient epsilon is asked for.
        dp_head: How the head is trained.
        accountant: What computes epsilon.
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
        asked = SampleGuarantee(
            self.sampling_rate, multiplier, self.clip_norm, self.chosen_delta, self.steps, self.dp_head,
            self.head_steps or 0,
        )  # fmt: skip
        target = target_epsilon
        if target is None and self.noise_multiplier is None:
            target = self.target_epsilon
        return asked if target is None else sample.calibrated(asked, target, self.planned, self.accountant)

    def patient_epsilon(self, guarantee: SampleGuarantee) -> float:
        """Epsilon of a patient with as many records as were asked for, after the planned rounds.

        Raises:
            ConfigurationError: The accountant cannot compute it.
        """
        assert self.patient_records is not None
        return of_group(guarantee.charges(self.planned), guarantee.delta, self.patient_records, self.accountant)

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
            found |= {
                "patient_records": self.patient_records,
                "epsilon_of_patient": finite(self.patient_epsilon(guarantee)),
            }
        return found

    def outlook(self, guarantee: SampleGuarantee) -> dict[str, Any]:
        """What follows for a site of so many records, and whether training can survive, in plain JSON values."""
        assert self.records is not None
        fit = None
        if self.target_epsilon is not None:
            made = self.noise_multiplier is None  # the noise was made for all rounds
            most = self.planned
            fit = most if made else sample.rounds_within(guarantee, self.target_epsilon, most, self.accountant)
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
        ratio = sample.noise_ratio(guarantee, self.parameters, self.records)
        # A step moves a body by the mean of its gradients, so by at most C on average, as at client level a release.
        left = planning.drowning(ratio, self.size, guarantee.steps * rounds)
        return {"noise_norm_over_clip_norm": ratio, "noise_over_longest_way": left, "survives": left <= 1.0}

    def _other(self, target: float, planned: SampleGuarantee) -> dict[str, Any]:
        made = self.noise_multiplier is None and self.target_epsilon == target
        guarantee = planned if made else self.guarantee(target)
        found = {"target_epsilon": target, "noise_multiplier": guarantee.noise_multiplier}
        return {**found, **self._noise(guarantee, self.planned)}
