"""Sessions, which decide what may leave a private peer while it runs, and which steps it may take."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import CheckpointError, ConfigurationError, TaskError
from dpeer.privacy import accounting
from dpeer.privacy.accounting import Charge, by_kind
from dpeer.privacy.guarantee import (
    GaussianGuarantee,
    Guarantee,
    Head,
    Phase,
    SampleGuarantee,
    check_delta,
    default_delta,
)
from dpeer.privacy.ledger import Charged, Ledger, current
from dpeer.privacy.mechanism import Clipped, Sparsifier
from dpeer.privacy.settings import PrivacyConfig


@dataclass
class BaseSession:
    """What both levels have in common.

    Attributes:
        budget: The epsilon that is never exceeded; None without a limit.
        planned: The most rounds in which the peer takes part; at sample level those that are still to come.
    """

    guarantee: GaussianGuarantee
    ledger: Ledger
    budget: float | None = None
    planned: int = 0
    size: int = 1

    def fitting(self, epsilon: Callable[[int], float]) -> int:
        """How many of the planned rounds the budget allows, by the epsilon of so many."""
        if self.budget is None or not self.planned or epsilon(self.planned) <= self.budget:
            return self.planned
        return bisect_right(range(1, self.planned), self.budget, key=epsilon)

    def outlook(self, parameters: int, rounds: int) -> list[str]:
        """The advice where training cannot survive the noise on so many parameters; nothing where it may."""
        doomed = self.guarantee.noise_over_way(parameters, self.size, rounds) > 1
        return [f"training cannot survive this noise: {self.guarantee.advice}"] if doomed else []


@dataclass
class ClientSession(BaseSession):
    """The privacy of one peer's whole data set in the messages that it releases."""

    guarantee: Guarantee
    sparsifier: Sparsifier = field(default_factory=Sparsifier)

    @property
    def rounds(self) -> int:
        """In how many of the planned rounds the budget allows a release."""
        return self.fitting(self.guarantee.epsilon)

    @property
    def may_release(self) -> bool:
        """Whether the budget allows one release more."""
        return self.budget is None or self.guarantee.epsilon(self.ledger.releases + 1) <= self.budget

    def release(
        self, number: int, make: Callable[[], bytes], receivers: Sequence[int] = ()
    ) -> tuple[bytes | None, bool]:
        """The round's bytes: made and charged now, or made before the run was interrupted.

        When the budget allows no further release, the last one is sent again, which costs nothing. `make` is called
        only where it allows one.

        Returns:
            The bytes, None where they are gone from the disk; and whether they are those of an earlier round.

        Raises:
            OSError: The disk refused; nothing may be sent.
        """
        if self.ledger.charged(number):
            return self.ledger.released(number), False
        if self.may_release:
            return self.ledger.release(number, make, receivers), False
        return self.ledger.last(), True

    def charge_stated(self, rounds: Sequence[int]) -> None:
        """Charge those of these rounds that are not charged: a disk that was lost may have released them.

        None of them is released from now on. The budget does not end these charges: that disk may have had none.

        Raises:
            OSError: The disk refused.
        """
        for number in rounds:
            if not self.ledger.charged(number):
                self.ledger.charge(Charged(number, stated=True))

    def noised(self, shared: int, trained: int) -> int:
        """How many values get noise at once, of the number that is shared and the most that are trained together."""
        return self.sparsifier.count(shared) if self.sparsifier.rule == "random" else shared

    def spent(self, met: Clipped | None = None) -> dict[str, Any]:
        """The costs so far, and the clipping of a round's update, for the peer's own files, as plain JSON values."""
        releases, guarantee = self.ledger.releases, self.guarantee
        costs: dict[str, Any] = {
            "epsilon": guarantee.epsilon(releases),
            "delta": guarantee.delta,
            "releases": releases,
            "guarantee": guarantee.words,
        }
        if met is not None:
            costs |= {"update_norm": met.norm, "clipped": met.clipped, "not_finite": not met.finite}
        return costs

    def notes(self, values: int) -> list[str]:
        """Notes on privacy before the peer starts; `values` of a release get noise."""
        m, releases = self.guarantee, max(self.rounds, self.ledger.releases)
        lines = [
            f"privacy of {m.words}: epsilon {m.epsilon(releases):.4g} at delta {m.delta:g} after {releases} releases "
            f"(noise multiplier {m.noise_multiplier:.10g}, clip norm {m.clip_norm:g})"
        ]
        if releases < self.planned:
            lines.append(
                f"the budget of epsilon {self.budget:g} is used up after {releases} of {self.planned} releases: from "
                "then on the last one is sent again, and the head goes on training"
            )
        if warning := check_delta(m.delta, self.size):
            lines.append(warning)
        ratio = m.noise_ratio(values)
        lines.append(f"the noise of a release is {ratio:,.4g} times as long as a clipped update ({values:,} values)")
        return lines + self.outlook(values, releases)


AT_ONCE = 64
"""The most steps that are charged together: a peer that is stopped has charged at most so many in vain."""

_AT_HOME = (
    "--dp-head post: the head stays as it was initialised until no message leaves this peer any more; then it is "
    "trained at home without noise, so model.safetensors must not be given away"
)


@dataclass(frozen=True)
class PeerData:
    """What privacy needs to know of one peer's data; it stays on the peer.

    Attributes:
        digest: SHA-256 (hex) of the data; None where unknown.
        records: The number of training records.
        groups: The group of each record; None where the task has none.
        own: Whether they are the peer's own, and no part of a common pool.
        found: Options of the task that were found in the data instead of being given, with their values.
    """

    digest: str | None = None
    records: int = 0
    groups: Sequence[object] | NDArray[Any] | None = None
    own: bool = False
    found: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleTerms:
    """What is asked of the steps of one peer, before it is known which steps a round has; see `open`.

    `left` of the peer's rounds are still to come; None for all.

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
    def nominal_units(self) -> int:
        """N, a public number near that of this peer's units: `--records`, or their number rounded to a power of two.

        The rounded number is for parts of common pools alone, where who gets which record depends on the others
        anyway. Of a peer's own records N must not follow: some number is the last one that is rounded down.
        """
        given = self.config.settings.records
        return int(2 ** round(math.log2(self.units))) if given is None else given

    @property
    def rate(self) -> float:
        """q, with which each unit is in a batch, so that one has about `batch_size` units."""
        return min(1.0, self.config.batch_size / self.nominal_units)

    @property
    def delta(self) -> float:
        """As given, or the default for N units."""
        given = self.config.settings.delta
        return default_delta(self.nominal_units) if given is None else given

    @property
    def head(self) -> Head:
        """How it is trained."""
        return self.config.settings.dp_head

    @property
    def at_home(self) -> bool:
        """Whether the model that stays at home is trained without noise in the end: it is not private then."""
        return self.head == "post" and self.config.finish != "none"

    @cached_property
    def warning(self) -> str | None:
        """A warning about a setting that does not suit this peer's own number of units; None if all do."""
        asked, units, unit = self.config.settings, self.units, self.config.settings.privacy_unit
        # By default delta is near enough to 1 / (10 N); the N that is given may be far off.
        told = asked.delta is not None or asked.records is not None
        warning = check_delta(self.delta, units, unit) if told else None
        if asked.records is not None and not 0.5 <= asked.records / units <= 2:
            return (
                f"--records {asked.records}: this peer has {units} {unit}s; what is promised holds, but its steps are "
                f"{units / asked.records:.3g} times as long as they would be"
            )
        return warning

    def open(self, phases: Sequence[Phase]) -> SampleSession:
        """Find the noise for the budget with these steps of a round, and open the ledger.

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
            asked.noise_multiplier or 1.0, asked.clip_norm, self.delta, self.rate, tuple(phases),
            self.head, asked.privacy_unit, self.nominal_units,
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
    with that number, because an epsilon takes a tenth of a second to compute. It has ended once a step is refused.
    """

    guarantee: SampleGuarantee
    terms: SampleTerms = field(kw_only=True)

    def __post_init__(self) -> None:
        self.ended = self.ledger.ended
        self.rounds = 0 if self.ended else self.fitting(self.epsilon)
        self._vetted = by_kind([*self.ledger.charges, *self.guarantee.charges(self.rounds)])

    def charge(self, number: int, wanted: int, looks: int = 1) -> int:
        """Charge the next steps of a round on disk, of `wanted` as many as may be taken at once; see `Phase`.

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
        vetted = by_kind([*self.ledger.charges, *further]) <= self._vetted
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
            lacking = by_kind(self.guarantee.charges(1)) - by_kind(self.ledger.stated(number))
            for kind, steps in lacking.items():
                self.ledger.charge(Charged(number, charge=Charge(*kind, steps), stated=True))
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
        """See `ClientSession.noised`."""
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


_LISTED = 20
"""The most names found in data that an error lists."""

Session: TypeAlias = ClientSession | SampleSession


def open(  # noqa: A001 - called as privacy.open
    config: PrivacyConfig,
    folder: Path,
    data: PeerData = PeerData(),
    *,
    resume: bool = False,
    left: int | None = None,
) -> ClientSession | SampleTerms | None:
    """Open the privacy session of one peer, with its ledger in this folder; None where nothing is charged.

    At sample level it is opened by the terms that this returns, once the steps of a round are known. `left` is as in
    `SampleTerms`.

    Raises:
        CheckpointError: The ledger to continue is damaged, or of another mechanism or level.
        ConfigurationError: The settings or data are not sound at this level.
        TaskError: Groups are to be protected, and the task knows none.
    """
    asked, guarantee = config.settings, config.guarantee
    if asked.privacy == "none" or (guarantee is not None and not config.shares):
        if resume and (run := current(folder)).lines:
            raise CheckpointError(
                f"the run in {str(folder.parent)!r} is private: go on with its --privacy {run.level}, or start a run "
                "in another --out"
            )
        return None
    _check_found(config, data.found)
    if guarantee is None:
        return SampleTerms(config, folder, data, resume, left)
    # Bytes are kept between two checkpoints, and while the checkpoint after them is written.
    keep = config.checkpoint_every + 1
    ledger = Ledger(folder, guarantee.mechanism, resume=resume, data=data.digest, keep=keep)
    kept = Sparsifier.parse(asked.sparsify)
    return ClientSession(guarantee, ledger, asked.target_epsilon, config.rounds, config.size, kept)


def _check_found(config: PrivacyConfig, found: Mapping[str, Sequence[str]]) -> None:
    """Refuse options that were found in the peer's data: neighbors learn only settings and noised values."""
    if found:
        options = " ".join(f"--task-option {option}={_listed(names)}" for option, names in found.items())
        raise ConfigurationError(
            f"--privacy {config.settings.privacy} with task {config.task!r}: {' and '.join(found)} must be given, "
            "alike on all peers, for neighbors get to know them and must not learn them from the data; this peer's "
            f"data show {options} (name all that there can be)"
        )


def _listed(names: Sequence[str]) -> str:
    return ",".join(names[:_LISTED]) + (f",... ({len(names)} in all)" if len(names) > _LISTED else "")
