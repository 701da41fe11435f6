"""Soundness of privacy settings: the rules that a run and `dpeer privacy` share.

Every check raises a ConfigurationError that names the command's option, because that is what a user can change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpeer.exceptions import BudgetTooSmall, ConfigurationError, TaskError
from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.gaussian import check_probability
from dpeer.privacy.sample_level import Head, Unit
from dpeer.privacy.settings import CLIENT_ONLY, SAMPLE_ONLY

_LISTED = 20
"""The most names found in data that an error lists."""


def check_level(level: str, given: Mapping[str, Any]) -> None:
    """Refuse settings without an effect at a level of privacy: those that are given, by name."""
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if level == "none":
            raise ConfigurationError(
                f"{flag} {value} does nothing without --privacy {_levels(name)}: add that, or leave {flag} out"
            )
        if level == "client" and name in SAMPLE_ONLY:
            raise ConfigurationError(f"{flag} {value} belongs to --privacy sample; with --privacy client leave it out")
        if level == "sample" and name in CLIENT_ONLY:
            raise ConfigurationError(
                f"{flag} {value} belongs to --privacy client: at sample level messages need no noise of their own, and "
                "what leaves a peer protects each record against everyone; leave it out"
            )


def _levels(name: str) -> str:
    """The levels of privacy at which a setting has an effect, in words."""
    if name in SAMPLE_ONLY:
        return "sample"
    return "client" if name in CLIENT_ONLY else "sample (which protects single records) or client (whole data sets)"


def check_strength(noise_multiplier: float | None, target_epsilon: float | None, level: str = "client") -> None:
    """Refuse privacy, at this level, without a noise multiplier or a target epsilon."""
    if noise_multiplier is None and target_epsilon is None:
        raise ConfigurationError(
            f"--privacy {level} needs to know how much: give --target-epsilon 8 (the noise follows from it) or "
            "--noise-multiplier"
        )


def check_unseen(head: Head, finish: str, *, standardize: bool) -> None:
    """Refuse to read records past the noise of sample level, by training at home or for the statistics of inputs.

    Args:
        head: How the head is trained.
        finish: The training at home after the last mixing; "none" for nothing.
        standardize: Whether inputs are scaled by their own statistics.
    """
    if standardize:
        raise ConfigurationError(
            "--standardize cannot be used with --privacy sample: the statistics of this peer's data would be in all "
            "that it computes, without noise; leave it out, and give the ranges of columns in a --schema"
        )
    if finish != "none" and head != "post":
        raise ConfigurationError(
            f"--finish {finish} with --dp-head {head}: it trains without noise, and the model that predicts would not "
            "be private any more; leave it out, or use --dp-head post"
        )


def check_records(records: int | None, units: int, unit: Unit, *, own: bool) -> None:
    """Refuse to count a peer's own units: N decides what neighbors see, so it must not follow from the data.

    Rounding does not help: some number of records is the last one that is rounded down. Where a common pool is divided,
    who gets which record depends on the others anyway, and nothing is promised about that.

    Args:
        records: The nominal number of units, as given; None if it was not.
        units: The true number.
        unit: The protected unit.
        own: Whether the data are the peer's own, and no part of a common pool.
    """
    if own and records is None:
        raise ConfigurationError(
            f"--privacy sample with data of this peer's own: --records N must be given, for one {unit} more can change "
            "a count, however it is rounded, and with it the noise and the number of steps, which neighbors see; give "
            f"about how many {unit}s it trains with (it has {units}): a plain number that everybody may know, and "
            "that stays when some more come"
        )


def check_groups(unit: Unit, groups: object | None, task: str) -> None:
    """Refuse to protect groups where the task has no group for each record.

    Raises:
        TaskError: It has none.
    """
    if unit == "group" and groups is None:
        raise TaskError(
            f"--privacy-unit group: task {task!r} does not say whose each record is; name the column with "
            '--task-option group=COLUMN (or kind = "group" in a schema), or give the Task its `groups`'
        )


def check_units(records: int | None, units: int, unit: Unit, delta: float, given: float | None) -> str | None:
    """A warning about a setting that does not suit this peer's own number of units; None if all do.

    Args:
        records: The nominal number of units, as given; None if it was not.
        units: The true number.
        unit: The protected unit.
        delta: As it is used; too large a one is refused.
        given: As it was given; None where it is the default.
    """
    # By default it is near enough to 1 / (10 N); the N that is given may be far off.
    warning = check_delta(delta, units, unit) if given is not None or records is not None else None
    if records is not None and not 0.5 <= records / units <= 2:
        return (
            f"--records {records}: this peer has {units} {unit}s; what is promised holds, but its steps are "
            f"{units / records:.3g} times as long as they would be"
        )
    return warning


def check_budget(guarantee: Guarantee, target_epsilon: float | None) -> None:
    """Refuse a budget into which not even one release fits.

    Raises:
        BudgetTooSmall: It is one.
    """
    if target_epsilon is not None and guarantee.epsilon(1) > target_epsilon:
        raise BudgetTooSmall(
            f"--target-epsilon {target_epsilon:g} allows not even one release with --noise-multiplier "
            f"{guarantee.noise_multiplier:g}: one costs {guarantee.epsilon(1):.3g}; leave --noise-multiplier out and "
            "the noise follows from the budget"
        )


def check_found(task: str, found: Mapping[str, Sequence[str]], level: str = "client") -> None:
    """Refuse options that were found in the peer's data: under privacy neighbors learn only settings and noised values.

    Args:
        task: Its name.
        found: The task's options that were found in the peer's data instead of being given, with their values.
        level: The level of privacy, for the message.
    """
    if not found:
        return
    options = " ".join(f"--task-option {option}={_listed(names)}" for option, names in found.items())
    raise ConfigurationError(
        f"--privacy {level} with task {task!r}: {' and '.join(found)} must be given, alike on all peers, for neighbors "
        f"get to know them and must not learn them from the data; this peer's data show {options} (name all that there "
        "can be)"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ",".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown},... ({len(names)} in all)"


def default_delta(units: int) -> float:
    """min(1e-5, 1 / (10 N)) for N protected units (peers or records)."""
    _check_positive(units)
    return min(1e-5, 0.1 / units)


def check_delta(delta: float, units: int, unit: str = "peer") -> str | None:
    """A warning about a delta above 1 / (10 N), N the protected units; one of 1 / N or more is refused."""
    check_probability(delta)
    _check_positive(units)
    if delta >= 1.0 / units:
        raise ConfigurationError(
            f"delta {delta:g} with {units} {unit}s: at 1/{units} or more, publishing one {unit}'s data outright would "
            f"count as private: choose at most {0.1 / units:.4g}"
        )
    if delta > 0.1 / units:
        return f"delta {delta:g} is above 1/(10 N) = {0.1 / units:.4g} of {units} {unit}s: choose that or less"
    return None


def _check_positive(units: int) -> None:
    if units < 1:
        raise ConfigurationError(f"size {units}: at least 1 peer is to be protected")
