"""The attacks that an audit makes on privacy at sample level, and their results."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from dpeer.privacy import SampleGuarantee
from dpeer.privacy.mechanism import ClippedSum
from dpeer.privacy.noise import grid
from dpeer.privacy.sample_level import phases_of
from tests.federation.audit_suite import by_hand, residuals, step_checks
from tests.federation.audit_suite import release_checks as checks
from tests.federation.audit_suite.disclosing_peer import COLUMNS, Setting, View, after_the_end, view
from tests.federation.audit_suite.records import FAR, OTHERS, WIDTH, Records, canary, of_all_lengths, others, silent
from tests.federation.audit_suite.release_checks import Check

LIFE = 20
"""Runs that one peer makes, one after the other: a new peer takes as long as several steps."""

_HARDLY = 0.001
"""A sampling rate with which next to all batches are empty."""

EMPTY, BY_HAND, DRAWN = 400, 40, 400
"""Steps without anybody, of each replay, and of each peer whose draws are looked at."""

_TOGETHER = 10
"""Steps of a round where they are many."""

_WIDE = 200_003
"""Values of a gradient whose noise is drawn in several blocks, by several threads."""


def examine(guarantee: SampleGuarantee, rounds: int, runs: int) -> list[Check]:
    """The checks of steps, as a neighbor makes them that knows all but the noise and the draws."""
    setting = Setting(guarantee)
    known = others(guarantee.clip_norm)
    more = np.vstack([known, FAR * guarantee.clip_norm * canary()])
    views = [
        [view(setting, Records(inputs), rounds, min(LIFE, runs - first), ask=True) for first in range(0, runs, LIFE)]
        for inputs in (known, more)
    ]
    every = [one for found in views for one in found]
    claimed = min(one.epsilon for one in every if one.epsilon is not None)
    charges = [run for one in every for run in one.charges]
    told = np.concatenate([one.told for one in every])
    there, planned = int(told.sum()), told.size * len(setting.planned)
    return [
        step_checks.charged(setting.charge, [int(run) for run in told.sum(axis=1)], charges, guarantee.delta, claimed),
        Check("steps", bool((told == len(setting.planned)).all()), f"{there:,} of {planned:,} in the messages"),
        checks.from_released(np.concatenate([one.strayed.ravel() for one in every])),
        *_noise(setting, views, rounds),
        _empty(guarantee), _large(guarantee), _climbing(guarantee), _at_the_end(guarantee),
        *by_hand.draws_by_hand(guarantee, DRAWN),
        by_hand.lengths_by_hand(guarantee),
        *by_hand.steps_by_hand(guarantee, BY_HAND),
    ]  # fmt: skip


def _noise(setting: Setting, views: Sequence[Sequence[View]], rounds: int) -> list[Check]:
    """Check the noise where no record has anything, part by part."""
    g, found = setting.guarantee, []
    released = [np.concatenate([one.released for one in group]) for group in views]
    sums = np.concatenate([one.sums for group in views for one in group]) / g.noise_multiplier
    step, divisor = grid(g.noise_std), g.sampling_rate * setting.units
    for part in dict.fromkeys(setting.planned):
        columns, rows = COLUMNS[part], [name == part for name in setting.planned * rounds]
        noise = sums[:, rows][:, :, columns][:, :, silent()[columns]]
        flat = noise.reshape(-1, noise.shape[2])
        ours = [one[:, rows][:, :, columns].reshape(-1, columns.stop - columns.start) for one in released]
        for check in (
            step_checks.on_grid_after_division(np.concatenate(ours), step, divisor),
            checks.even_digits([np.rint(one.astype(np.float64) * divisor / step) for one in ours]),
            residuals.never_twice(flat),
            residuals.enough(flat),
            residuals.normal(flat),
            residuals.unrelated(flat),
            dataclasses.replace(residuals.forgotten(flat), name="noise across steps"),
        ):
            named = check.name if len(set(setting.planned)) == 1 else f"{check.name}, {part}"
            found.append(dataclasses.replace(check, name=named))
    if len(set(setting.planned)) > 1:
        # Noise of the head that comes again in the body, or the other way round.
        flat = sums[:, :, silent()].reshape(-1, int(silent().sum()))
        found.append(dataclasses.replace(residuals.forgotten(flat[flat != 0.0]), name="noise across parts"))
    return found


def _empty(guarantee: SampleGuarantee) -> Check:
    """Check that a step that draws nobody is taken, noised on every coordinate and charged like any other."""
    made = dataclasses.replace(guarantee, sampling_rate=_HARDLY, phases=phases_of(_TOGETHER), head="joint")
    setting = Setting(made)
    # Records that have nothing: now and then one of them is drawn.
    seen = view(setting, Records(np.zeros((OTHERS, WIDTH))), EMPTY // _TOGETHER)
    noise = seen.sums[0] / guarantee.noise_multiplier
    return together("empty batches", [
        Check("steps", int(seen.told.sum()) == EMPTY, f"{seen.told.sum():,} told"),
        step_checks.counted("ledger", setting.charge, EMPTY, seen.charges[0]),
        residuals.never_twice(noise), residuals.enough(noise), residuals.normal(noise), residuals.forgotten(noise),
    ], f"{EMPTY} steps")  # fmt: skip


def _large(guarantee: SampleGuarantee) -> Check:
    """Check the noise of a gradient of several blocks, which two threads draw."""
    mechanism = ClippedSum(guarantee.clip_norm, guarantee.noise_multiplier, guarantee.sampling_rate, 4)
    drawn = mechanism.released(np.zeros(_WIDE), threads=2).astype(np.float64)
    noise = drawn * (mechanism.expected / guarantee.noise_std)
    parts = noise[: _WIDE // 100 * 100].reshape(100, -1).T
    found = [residuals.normal(noise), residuals.forgotten(noise), residuals.enough(parts)]
    return together("a large body", found, f"{_WIDE:,} values")


def _climbing(guarantee: SampleGuarantee) -> Check:
    """Check that SAM's two gradients of a batch, which see the same draws, are charged as one with less noise."""
    made = dataclasses.replace(guarantee, phases=phases_of(_TOGETHER), head="joint")
    setting = Setting(made, looks=2)
    seen = view(setting, Records(others(guarantee.clip_norm)), 1)
    told = int(seen.told.sum())
    return together("SAM on the same batch", [
        Check("gradients", told == 2 * _TOGETHER, f"{told} told"),
        step_checks.counted("ledger", setting.charge, _TOGETHER, seen.charges[0]),
        residuals.never_twice(seen.sums[0]),
    ], f"{_TOGETHER} steps of 2 gradients")  # fmt: skip


def _at_the_end(guarantee: SampleGuarantee) -> Check:
    """Check that with `post` no body comes any more when the head has begun to train without noise."""
    made = dataclasses.replace(guarantee, phases=phases_of(_TOGETHER), head="post")
    same, trained = after_the_end(Setting(made), of_all_lengths(guarantee.clip_norm, 12))
    message = "another body was sent" if not same else "the last body is sent again"
    return Check("after the end", same and trained, message if trained else "the head was not trained")


def together(name: str, found: Sequence[Check], message: str) -> Check:
    """One check that holds if all of these do."""
    failed = [check for check in found if not check.held]
    return Check(name, not failed, "; ".join(f"{check.name}: {check.message}" for check in failed) or message)
