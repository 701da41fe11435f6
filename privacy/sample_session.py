"""Sample-level privacy of one peer while it runs: its mechanism, ledger and budget, and which steps may be taken."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.privacy import accounting
from dpeer.privacy.accounting import Charge
from dpeer.privacy.config import PeerData, PrivacyConfig
from dpeer.privacy.guarantee import Head, Phase, SampleGuarantee, check_delta
from dpeer.privacy.ledger import Charged, Ledger
from dpeer.privacy.session import BaseSession

AT_ONCE = 64
"""The most steps that are charged together: a peer that is stopped has charged at most so many in vain."""

_AT_HOME = (
    "--dp-head post: the head stays as it was initialised until no message leaves this peer any more; then it is "
    "trained at home without noise, so model.safetensors must not be given away"
)


@dataclass(frozen=True)
class SampleTerms:
    """What is asked of the steps of one peer, before it is known which steps a round has; see `open`.

    Attributes:
        config: Of the run.
        folder: The peer's privacy folder.
        data: Of the peer.
        resume: Whether the run in the folder is continued.
        left: How many of the peer's rounds are still to come; None for all.

    Raises:
        TaskError: Groups are to be protected, and the task knows none.
        ConfigurationError: The peer has too few records for what is asked, or --records is missing.
    """

    config: PrivacyConfig
    folder: Path
    data: PeerData
    resume: bool = False
    left: int | None = None

    def __post_init__(self) -> None:
        asked, task = self.config.settings, self.config.task
        if asked.privacy_unit == "group" and self.data.groups is None:
            raise TaskError(
                f"--privacy-unit group: task {task!r} does not say whose each record is; name the column with "
                '--task-option group=COLUMN (or kind = "group" in a schema), or give the Task its `groups`'
            )
        if self.data.own and asked.records is None:
            raise ConfigurationError(
                f"--privacy sample with data of this peer's own: --records N must be given, for one "
                f"{asked.privacy_unit} more can change a count, however it is rounded, and with it the noise and the "
                f"number of steps, which neighbors see; give about how many {asked.privacy_unit}s it trains with (it "
                f"has {self.units}): a plain number that everybody may know, and that stays when some more come"
            )
        _ = self.warning

    @cached_property
    def groups(self) -> NDArray[Any] | None:
        """The group of each training record, shape (records,), where groups are protected; else None."""
        return np.asarray(self.data.groups) if self.config.settings.privacy_unit == "group" else None

    @cached_property
    def units(self) -> int:
        """The peer's own number of units."""
        return self.data.records if self.groups is None else len(np.unique(self.groups))

    @property
    def rate(self) -> float:
        """q, the probability with which each unit is in a batch."""
        return self.config.sampling_rate(self.units)

    @property
    def head(self) -> Head:
        """How the head is trained."""
        return self.config.settings.dp_head

    @property
    def at_home(self) -> bool:
        """Whether the model that stays at home is trained without noise when nothing leaves the peer any more.

        It is not private then.
        """
        return self.head == "post" and self.config.finish != "none"

    @cached_property
    def warning(self) -> str | None:
        """A warning about a setting that does not suit this peer's own number of units; None if all do."""
        asked, units, unit = self.config.settings, self.units, self.config.settings.privacy_unit
        # By default delta is near enough to 1 / (10 N); the N that is given may be far off.
        told = asked.delta is not None or asked.records is not None
        warning = check_delta(self.config.sample_delta(units), units, unit) if told else None
        if asked.records is not None and not 0.5 <= asked.records / units <= 2:
            return (
                f"--records {asked.records}: this peer has {units} {unit}s; what is promised holds, but its steps are "
                f"{units / asked.records:.3g} times as long as they would be"
            )
        return warning

    def open(self, phases: Sequence[Phase]) -> SampleSession:
        """Find the noise for the budget, and open the ledger.

        Args:
            phases: The steps of a round.

        Raises:
            CheckpointError: The ledger to continue is damaged, or of another mechanism.
            BudgetTooSmall: Not one round fits into the budget.
            ConfigurationError: The algorithm takes no step, or no noise is enough.
        """
        config, asked = self.config, self.config.settings
        if not phases:
            raise ConfigurationError(
                f"--privacy sample: {config.algorithm} takes no local step with these settings, so nothing is to be "
                "protected: leave it out, or give --body-epochs"
            )
        base = SampleGuarantee(
            asked.noise_multiplier or 1.0, asked.clip_norm, config.sample_delta(self.units), self.rate, tuple(phases),
            self.head, asked.privacy_unit, config.nominal_units(self.units),
        )  # fmt: skip
        budget, noise_given = asked.target_epsilon, asked.noise_multiplier is not None
        guarantee = base.within(budget, config.rounds, noise_given=noise_given)
        ledger = Ledger(self.folder, guarantee.mechanism, level="sample", resume=self.resume, data=self.data.digest)
        left = config.rounds if self.left is None else self.left
        return SampleSession(guarantee, ledger, budget, left, config.size, terms=self)


@dataclass
class SampleSession(BaseSession):
    """The privacy of each record, or group of records, of one peer in its local training.

    How many whole rounds the budget allows is found when the run begins or goes on; from then on steps are compared
    with that number, because an epsilon takes a tenth of a second to compute.

    Attributes:
        terms: What is asked of the steps.
        rounds: How many of the planned rounds the budget allows.
        ended: Whether a step has been refused.
    """

    guarantee: SampleGuarantee
    terms: SampleTerms = field(kw_only=True)

    def __post_init__(self) -> None:
        self.ended = self.ledger.ended
        self.rounds = 0 if self.ended else self.fitting(self.epsilon)
        self._vetted = _by_noise([*self.ledger.charges, *self.guarantee.charges(self.rounds)])

    def charge(self, number: int, wanted: int, looks: int = 1) -> int:
        """Charge the next steps of a round, as many as may be taken at once; they are on disk when this returns.

        Args:
            number: The round.
            wanted: How many are about to be taken, 1 or more.
            looks: How many noised gradients each of them takes of its batch.

        Returns:
            How many may be taken now; 0 when the budget allows none any more.

        Raises:
            OSError: The disk refused; no step may be taken.
        """
        if self.ended:
            return 0
        steps = self.guarantee.charge(min(wanted, AT_ONCE), looks)
        if not self._fits(steps):
            self.ended = True
            return 0
        self.ledger.charge(Charged(number, charge=steps))
        return steps.steps

    def _fits(self, *further: Charge) -> bool:
        """Whether the budget allows what is charged and these steps."""
        if self.budget is None:
            return True
        # All kinds of steps together: one that goes beyond its number leaves less for the others.
        vetted = _by_noise([*self.ledger.charges, *further]) <= self._vetted
        return vetted or self._epsilon(further) <= self.budget

    def charge_stated(self, rounds: Sequence[int]) -> None:
        """Charge those of these rounds whose steps are not charged: a disk that was lost may have taken them.

        Of the last round in the ledger, an older copy of that disk's, it may have taken more. The budget does not end
        these charges: that disk may have had none. Where the ledger ends, none was taken after it.

        Raises:
            OSError: The disk refused.
        """
        newest = max(self.ledger.rounds, default=-1)
        for number in () if self.ledger.ended else rounds:
            if number < newest and self.ledger.charged(number):
                continue
            lacking = _by_noise(self.guarantee.charges(1)) - _by_noise(self.ledger.stated(number))
            for noise, steps in lacking.items():
                charge = Charge(self.guarantee.sampling_rate, noise, steps)
                self.ledger.charge(Charged(number, charge=charge, stated=True))
        self.ended = self.ended or not self._fits()

    def end(self, number: int) -> None:
        """Record that no step is taken any more, before anything is trained without noise; see `Charged`."""
        self.ended = True
        if not self.ledger.ended:
            self.ledger.charge(Charged(number, ended=True))

    def epsilon(self, rounds: int = 0) -> float:
        """Epsilon of everything that was charged, and of so many rounds more."""
        return self._epsilon(self.guarantee.charges(rounds))

    def _epsilon(self, further: Iterable[Charge]) -> float:
        return accounting.total_epsilon([*self.ledger.charges, *further], self.guarantee.delta)

    def spent(self) -> dict[str, Any]:
        """The costs so far, for the peer's own files: JSON values, but that an epsilon beyond computing is infinite."""
        guarantee = self.guarantee
        try:
            epsilon = self.epsilon()
        except ConfigurationError:  # in the thousands: no reason to end a run that has begun
            epsilon = math.inf
        return {
            "mode": "sample",
            "epsilon": epsilon,
            "delta": guarantee.delta,
            "steps": self.ledger.steps,
            "guarantee": guarantee.words,
            "sampling_rate": guarantee.sampling_rate,
            "noise_multiplier": guarantee.noise_multiplier,
            "head": guarantee.head,
        }

    def noised(self, shared: int, trained: int) -> int:
        """How many values get noise at once, of the number that is shared and the most that are trained together."""
        return trained

    def notes(self, parameters: int) -> list[str]:
        """Notes on privacy before the peer starts; so many parameters are trained together at most."""
        m, rounds, terms = self.guarantee, self.rounds, self.terms
        a_round = m.steps(1)
        steps = self.ledger.steps + a_round * rounds
        lines = [
            f"privacy of {m.words}: epsilon {self.epsilon(rounds):.4g} at delta {m.delta:.3g} after {steps:,} "
            f"steps ({a_round:,} a round, noise multiplier {m.noise_multiplier:.10g}, clip norm {m.clip_norm:g}, "
            f"sampling rate {m.sampling_rate:.4g}, about {m.units:,} {m.unit}s)",
        ]
        if m.unit == "record":
            lines.append(
                "one record is protected, not one patient: --privacy-unit group protects all records of a patient "
                "together"
            )
        if terms.at_home:
            lines.append(_AT_HOME)
        if rounds < self.planned and self.budget is not None:
            lines.append(
                f"the budget of epsilon {self.budget:g} allows {rounds:,} more rounds: from then on the last body is "
                "sent again"
            )
        if terms.warning is not None:
            lines.append(terms.warning)
        # A step moves the model by the mean of clipped gradients, so by at most C, as a release does at client level.
        ratio = m.noise_ratio(parameters)
        lines.append(
            f"the noise of a step is {ratio:,.4g} times as long as the longest mean of a batch's clipped gradients "
            f"({parameters:,} parameters, {m.sampling_rate * m.units:,.4g} {m.unit}s a batch)"
        )
        return lines + self.outlook(parameters, rounds)


def _by_noise(charged: Iterable[Charge]) -> Counter[float]:
    """The number of steps by noise multiplier."""
    steps = Counter[float]()
    for charge in charged:
        steps[charge.noise_multiplier] += charge.steps
    return steps
