"""Which settings of privacy go together: the rules that a run and the commands that plan one share.

Errors name the command's options, because these are what a user can change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpeer.exceptions import BudgetTooSmall, ConfigurationError
from dpeer.privacy.guarantee import Adversary, Guarantee
from dpeer.privacy.mechanism import Sparsifier
from dpeer.privacy.sample import Head
from dpeer.privacy.settings import CLIENT_ONLY, SAMPLE_ONLY

_LISTED = 20
"""The most names found in data that an error lists."""


def check_level(level: str, given: Mapping[str, Any]) -> None:
    """Refuse settings that mean nothing at a level of privacy.

    Args:
        level: "none", "client" or "sample".
        given: The settings of `PrivacySettings` that are not as they are by default, by name.

    Raises:
        ConfigurationError: Names one, and the level at which it means something.
    """
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
    """The levels of privacy at which a setting means something, in words."""
    if name in SAMPLE_ONLY:
        return "sample"
    return "client" if name in CLIENT_ONLY else "sample (which protects single records) or client (whole data sets)"


def check_unseen(head: Head, finish: str, *, standardize: bool) -> None:
    """Refuse settings with which records are looked at past the noise of privacy at sample level.

    Args:
        head: How the head is trained.
        finish: What is trained at home after the last mixing; "none" for nothing.
        standardize: Whether inputs are scaled by their own statistics.

    Raises:
        ConfigurationError: Names one, with what would be right.
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


def check_records(records: int | None, units: int, unit: str, *, own: bool) -> None:
    """Refuse to count a peer's own records: N decides what neighbors see, so it must not follow from the data.

    Rounding does not help: some number of records is the last one that is rounded down. Where a common pool is divided,
    who gets which record depends on the others anyway, and nothing is promised about that.

    Args:
        records: About how many there are, as somebody said it; None if nobody did.
        units: How many there are.
        unit: What is protected: "record" or "group".
        own: Whether the data are the peer's own, and no part of a common pool.

    Raises:
        ConfigurationError: They are, and nobody said about how many there are.
    """
    if own and records is None:
        raise ConfigurationError(
            f"--privacy sample with data of this peer's own: --records N must be said, for one {unit} more can change "
            "a count, however it is rounded, and with it the noise and the number of steps, which neighbors see; give "
            f"about how many {unit}s it trains with (there are {units}): a plain number that everybody may know, and "
            "that stays when some more come"
        )


def check_strength(noise_multiplier: float | None, target_epsilon: float | None, level: str = "client") -> None:
    """Refuse privacy, at this level, without a noise multiplier or a target epsilon.

    Raises:
        ConfigurationError: Both are None.
    """
    if noise_multiplier is None and target_epsilon is None:
        raise ConfigurationError(
            f"--privacy {level} needs to know how much: give --target-epsilon 8 (the noise follows from it) or "
            "--noise-multiplier"
        )


def check_adversary(adversary: Adversary, min_honest: int | None, sparsifier: Sparsifier | None = None) -> None:
    """Refuse settings that are not those of the adversary, or that give away more than averages.

    Args:
        adversary: Against whom the guarantee is.
        min_honest: Honest bodies in every average that an outsider sees; None if nobody said.
        sparsifier: What of an update is kept.

    Raises:
        ConfigurationError: They do not go together.
    """
    if adversary == "neighbor":
        if min_honest is not None:
            raise ConfigurationError(
                f"--dp-min-honest {min_honest}: a neighbor sees every message by itself; it belongs to --dp-adversary "
                "aggregate"
            )
        return
    if sparsifier is not None and sparsifier.rule == "top-k":
        raise ConfigurationError(
            f"--sparsify top-k:{sparsifier.keep:g} cannot be used with --dp-adversary aggregate: the largest values of "
            "each message are chosen before the average in which the noise is enough; use random:SHARE, or "
            "--dp-adversary neighbor"
        )
    if min_honest is None:
        raise ConfigurationError(
            "--dp-adversary aggregate needs --dp-min-honest M: how many of the bodies in every average come from peers "
            "that do not help the adversary, for example --dp-min-honest 16"
        )


def check_mixing(adversary: Adversary, said: str | None) -> None:
    """Refuse averages whose weights follow from the bodies, where the guarantee is of averages with known weights.

    Args:
        adversary: Against whom the guarantee is.
        said: The setting that makes them so, with its value; None if there is none.

    Raises:
        ConfigurationError: They do not go together.
    """
    if adversary == "aggregate" and said is not None:
        raise ConfigurationError(
            f"{said} cannot be used with --dp-adversary aggregate: its epsilon counts the noise of all bodies in an "
            "average, and here the bodies themselves decide how much of each is in it; use --dp-adversary neighbor, "
            "which protects each body by itself"
        )


def worst_share(rows: Iterable[Sequence[float]], min_honest: int) -> float:
    """The share of the peer that is hidden worst, over all averages and all sets of honest peers in them.

    Args:
        rows: The mixing matrix by rows; those of its weights that are zero do not count.
        min_honest: Honest bodies in every average.

    Returns:
        The largest weight over the length of all weights: `Guarantee.share`.

    Raises:
        ConfigurationError: Some average has fewer bodies.
    """
    return max(_worst(sorted(weight for weight in row if weight > 0), min_honest) for row in rows)


def _worst(ordered: list[float], least: int) -> float:
    if len(ordered) < least:
        raise ConfigurationError(
            f"--dp-min-honest {least}: some peer averages only {len(ordered)} bodies, its own included; give at most "
            "that, or a --topology with more neighbors"
        )
    chosen = [ordered[-1], *ordered[: least - 1]]
    return ordered[-1] / math.sqrt(sum(weight**2 for weight in chosen))


def check_budget(guarantee: Guarantee, target_epsilon: float | None) -> None:
    """Refuse a budget into which not even one release fits.

    Raises:
        BudgetTooSmall: It is one.
    """
    if target_epsilon is not None and guarantee.releases(target_epsilon) < 1:
        raise BudgetTooSmall(
            f"--target-epsilon {target_epsilon:g} allows not even one release with --noise-multiplier "
            f"{guarantee.noise_multiplier:g}: one costs {guarantee.epsilon(1):.3g}; leave --noise-multiplier out and "
            "the noise follows from the budget"
        )


def check_said(task: str, found: Mapping[str, Sequence[str]], level: str = "client") -> None:
    """Refuse options that were found in the peer's data: under privacy neighbors learn only settings and noised values.

    Args:
        task: Its name.
        found: What of the task's options was found in the peer's data instead of being said, with what it would be.
        level: The level of privacy, for the message.

    Raises:
        ConfigurationError: Something was found that a setting can say.
    """
    if not found:
        return
    options = " ".join(f"--task-option {option}={_listed(names)}" for option, names in found.items())
    raise ConfigurationError(
        f"--privacy {level} with task {task!r}: {' and '.join(found)} must be said, alike on all peers, for neighbors "
        f"get to know them and must not learn them from the data; this peer's data show {options} (name all that there "
        "can be)"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ",".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown},... ({len(names)} in all)"
