"""Steps with next to no noise, computed once more from who was drawn: nothing else may be in them.

The neighbor knows each record, so also its gradient at the values that it has computed from the gradients before. With
so little noise it can tell which records are in a sum. What a step is beyond their clipped gradients is a defect: a
norm of single layers, of a batch's mean or of one part of the model, a divisor that depends on the batch or on the
data, a head that was trained otherwise.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dpeer.privacy.sample_level import Head, SampleGuarantee, phases_of
from tests.federation.audit_suite import step_checks
from tests.federation.audit_suite.canary import Array
from tests.federation.audit_suite.disclosing_peer import COLUMNS, RATE, Setting, View, view
from tests.federation.audit_suite.echo import BODY, HEAD, Plain
from tests.federation.audit_suite.records import WIDTH, Looking, Records, canary, of_all_lengths
from tests.federation.audit_suite.release_checks import Check, clipped_exactly
from tests.federation.audit_suite.step_checks import Draws

ALMOST_NONE = 1e-6
"""A noise multiplier with which a sum is all but what it is without noise."""

_HEADS: tuple[Head, ...] = ("joint", "alternate", "frozen", "post")
_RECORDS = 12
_TOGETHER, _UNITS = 64, 64
"""With so many nominal records, and so many at a time, several are computed at once."""
LENGTHS = (0.0, 0.5, 0.999, 1.001, 1.02, 1.1, 1.5, 10.0, 1e3, 1e6, 1e30)
_ASIDE = 3.0
"""How far records of a group are from their mean in each coordinate of the body's layers."""

BAD = (math.inf, -math.inf, math.nan)


def exact(guarantee: SampleGuarantee, rate: float, steps: int, head: Head = "joint", units: int = _UNITS) -> Setting:
    """The mechanism with next to no noise."""
    head_steps = max(1, steps // 2) if head == "alternate" else 0
    made = dataclasses.replace(
        guarantee, noise_multiplier=ALMOST_NONE, sampling_rate=rate, phases=phases_of(steps, head_steps), head=head
    )
    return Setting(made, units, microbatch=_TOGETHER)


def replayed(setting: Setting, records: Records, seen: View) -> tuple[Draws, float]:
    """Which records each step drew, and how far its sum is from that of their clipped gradients."""
    clip_norm, body, head = setting.guarantee.clip_norm, np.zeros(BODY), np.zeros(HEAD)
    sums, gradients = [], []
    for part, row, total in zip(setting.planned, seen.released[0].astype(np.float64), seen.sums[0], strict=True):
        columns = COLUMNS[part]
        found = np.zeros((len(records.inputs), WIDTH))
        found[:, columns] = records.gradients(body, head)[:, columns]
        if records.groups is not None:
            found = np.stack([found[records.groups == group].mean(axis=0) for group in np.unique(records.groups)])
        lengths = np.linalg.norm(found, axis=1) / clip_norm
        gradients.append(found / (clip_norm * np.maximum(lengths, 1.0))[:, None])
        sums.append(total)
        body, head = body - RATE * row[:BODY], head - RATE * row[BODY:]
    return step_checks.drawn(np.array(sums), np.array(gradients))


def steps_by_hand(guarantee: SampleGuarantee, steps: int) -> list[Check]:
    """Replay steps with each way to train a head, and with each way to compute gradients."""
    records = of_all_lengths(guarantee.clip_norm, _RECORDS)
    fewer = of_all_lengths(guarantee.clip_norm, 5, offset=3)
    joint = exact(guarantee, 0.3, steps)
    return [
        *(_replay(f"by hand, {head}", exact(guarantee, 0.3, steps, head), records) for head in _HEADS),
        _replay("by hand, fewer records", exact(guarantee, 0.6, steps), fewer),
        _replay("by hand, vectorized", joint, dataclasses.replace(records, model=Plain)),
        # In many pieces, which are added up.
        _replay(
            "by hand, one by one", dataclasses.replace(joint, microbatch=2), dataclasses.replace(records, model=Looking)
        ),
        _replay("by hand, groups", joint, _grouped(records)),
    ]


def _replay(name: str, setting: Setting, records: Records) -> Check:
    seen = view(setting, records, 1)
    _, apart = replayed(setting, records, seen)
    if seen.told[0, 0] != len(setting.planned) or np.abs(seen.strayed).max() > 0.0:
        apart = math.inf
    return step_checks.by_hand(name, apart, len(setting.planned))


def _grouped(records: Records) -> Records:
    """Two records for each, the mean of which it is; each of the two is too long."""
    aside = np.zeros(WIDTH)
    aside[: BODY - 1] = _ASIDE
    inputs = np.stack([records.inputs + aside, records.inputs - aside], axis=1).reshape(-1, WIDTH)
    return Records(inputs, np.repeat(np.arange(len(records.inputs)), 2))


def draws_by_hand(guarantee: SampleGuarantee, steps: int, peers: int = 2) -> list[Check]:
    """Check who is drawn, at the rate that is claimed."""
    setting = exact(guarantee, guarantee.sampling_rate, steps)
    # About one of them is in a batch, and so many batches are empty.
    records = of_all_lengths(guarantee.clip_norm, min(_RECORDS, max(2, round(1 / guarantee.sampling_rate))))
    found = [replayed(setting, records, view(setting, records, 1)) for _ in range(peers)]
    draws = [one for one, _ in found]
    return [
        step_checks.by_hand("by hand, sampling", max(apart for _, apart in found), peers * steps),
        *step_checks.sampled(draws, guarantee.sampling_rate),
        step_checks.drawn_anew(draws, guarantee.sampling_rate),
    ]


def lengths_by_hand(guarantee: SampleGuarantee) -> Check:
    """Check that no record is counted for more than the clip norm, however long its gradient is and wherever."""
    setting = exact(guarantee, 1.0, 1, units=1)
    moved = [
        view(setting, Records(_among_others(np.where(side, length * np.where(side, side, 1.0), 0.0))), 1).sums[0]
        for length in (*(length * guarantee.clip_norm for length in LENGTHS), *BAD)
        for side in sides()
    ]
    return clipped_exactly(np.concatenate(moved), 1.0)


def _among_others(inputs: Array) -> Array:
    """A record beside many that are nothing: the start looks at a few examples, and refuses some of what is tried."""
    found = np.zeros((2 * 8 + 1, WIDTH))
    found[1] = inputs
    return found


def sides() -> list[Array]:
    """Directions: across the model, and in the body, in the head, and in one coordinate alone."""
    eye = np.eye(WIDTH)
    return [canary(), np.r_[np.full(BODY - 1, (BODY - 1) ** -0.5), np.zeros(HEAD + 1)], eye[-1], eye[0]]
