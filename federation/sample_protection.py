"""Making a peer's privacy at sample level from settings and from what all may know of its data; imports no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from dpeer.exceptions import BudgetTooSmall, ConfigurationError, TaskError
from dpeer.federation.settings import Settings
from dpeer.privacy import Charge, StepLedger
from dpeer.privacy.guarantee import check_delta, default_delta
from dpeer.privacy.step_protection import StepProtection
from dpeer.privacy.steps import Mechanism, Phase, charges, least_noise


def nominal(settings: Settings, units: int) -> int:
    """N: about how many units there are, which all may know: as it is said, or rounded to a power of two.

    The rounded number is for parts of common pools alone; see `dpeer.privacy.soundness.check_records`.
    """
    return settings.records if settings.records is not None else int(2 ** round(math.log2(units)))


def sampling_rate(settings: Settings, units: int) -> float:
    """q, as it is said, or so that a batch has about `batch_size` units."""
    if settings.sampling_rate is not None:
        return settings.sampling_rate
    return min(1.0, settings.batch_size / nominal(settings, units))


def check_units(settings: Settings, units: int) -> str | None:
    """A warning about what this peer's own number of units does not suit; None if there is nothing to say.

    Args:
        settings: As this rank uses them.
        units: How many there are.

    Raises:
        ConfigurationError: With so few of them the delta that is asked for promises nothing.
    """
    word = settings.privacy_unit
    delta = default_delta(nominal(settings, units)) if settings.delta is None else settings.delta
    # By default it is near enough to 1 / (10 N); what N is said to be may be far off.
    warning = check_delta(delta, units, word) if settings.delta is not None or settings.records is not None else None
    if settings.records is not None and not 0.5 <= settings.records / units <= 2:
        return (
            f"--records {settings.records}: this peer has {units} {word}s; what is promised holds, but its steps are "
            f"{units / settings.records:.3g} times as long as they would be"
        )
    return warning


def protect_steps(
    settings: Settings,
    phases: Sequence[Phase],
    units: int,
    folder: Path,
    *,
    rounds: int,
    left: int | None = None,
    resume: bool,
    data: str | None = None,
    new_data: bool = False,
) -> StepProtection:
    """Make the privacy of one peer's steps, with its ledger in this folder.

    Args:
        settings: As this rank uses them.
        phases: The steps of a round.
        units: How many records or groups the peer has.
        folder: The rank's privacy folder.
        rounds: In how many rounds the peer takes part: what noise is calibrated for.
        left: In how many of them that are still to come; None for all.
        resume: Whether the run in the folder is continued.
        data: SHA-256 (hex) of the peer's data; None where nobody knows.
        new_data: Whether the data are others than those of earlier runs in the folder.

    Raises:
        CheckpointError: The ledger to go on with is damaged, or of another mechanism.
        BudgetTooSmall: Not one round fits into the budget.
        ConfigurationError: The algorithm takes no step, or no noise is enough.
    """
    if not phases:
        raise ConfigurationError(
            f"--privacy sample: {settings.algorithm} takes no local step with these settings, so there is nothing to "
            "protect: leave it out, or give --body-epochs"
        )
    known = nominal(settings, units)
    delta = settings.delta if settings.delta is not None else default_delta(known)
    rate = sampling_rate(settings, units)
    noise = settings.noise_multiplier
    if noise is None:
        assert settings.target_epsilon is not None
        noise = _calibrated(rate, delta, tuple(phases), rounds, settings.target_epsilon)
    mechanism = Mechanism(rate, noise, settings.clip_norm, delta, settings.dp_head, settings.privacy_unit, known)
    ledger = StepLedger(folder, asdict(mechanism), resume=resume, data=data, new_data=new_data)
    to_come = rounds if left is None else left
    protection = StepProtection(mechanism, ledger, phases, budget=settings.target_epsilon, rounds=to_come)
    if to_come and not protection.rounds and not ledger.charges:
        raise BudgetTooSmall(_too_small(protection, folder.parent))
    return protection


@lru_cache(maxsize=16)  # the peers of a simulation ask the same
def _calibrated(rate: float, delta: float, phases: tuple[Phase, ...], rounds: int, epsilon: float) -> float:
    def charged(noise: float) -> Sequence[Charge]:
        return charges(Mechanism(rate, noise, 1.0, delta, "joint", "record", 1), phases, rounds)

    return least_noise(charged, epsilon, delta)


def _too_small(protection: StepProtection, folder: Path) -> str:
    before, first = protection.epsilon(0), protection.epsilon(1)
    budget = f"--target-epsilon {protection.budget:g}"
    if math.isinf(before):
        return (
            f"{budget} cannot be kept: earlier runs in {str(folder)!r} have released bodies without noise that "
            "protects; if the data are others now, say --new-data"
        )
    if before:
        return (
            f"{budget} allows not even one round: earlier runs in {str(folder)!r} have spent epsilon {before:.4g}, one "
            f"more round would make it {first:.4g}; if the data are others now, say --new-data; else give a larger "
            "--target-epsilon or more noise"
        )
    return (
        f"{budget} allows not even one round with --noise-multiplier {protection.mechanism.noise_multiplier:g}: one "
        f"costs {first:.3g}; leave --noise-multiplier out and the noise follows from the budget"
    )


def check_groups(settings: Settings, groups: Sequence[object] | None) -> None:
    """Refuse to protect groups where the task does not say whose a record is.

    Raises:
        TaskError: It does not.
    """
    if settings.privacy_unit == "group" and groups is None:
        raise TaskError(
            f"--privacy-unit group: task {settings.task!r} does not say whose each record is; name the column with "
            '--task-option group=COLUMN (or kind = "group" in a schema), or give the Task its `groups`'
        )
