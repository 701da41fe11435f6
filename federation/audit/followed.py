"""What body and head become: nothing else than what an optimizer makes of the gradients that were told.

Momentum, or the moments of AdamW, that were made of sums before the noise would carry past it what these gradients
hide; and so would a head that was trained once more, aside. So the steps of some rounds are taken again here, in
float64, from the gradients that the neighbor has.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import nn

from dpeer.federation.audit.canary import ROW, Array
from dpeer.federation.audit.records import WIDTH, of_all_lengths
from dpeer.federation.audit.told import COLUMNS, RATE, Setting, learner, told_by
from dpeer.privacy.checks import Check
from dpeer.privacy.sample_level import Head, SampleGuarantee, phases_of
from dpeer.training.models.echo import BODY
from dpeer.training.payload import encode
from dpeer.training.settings import Optimizer

_ROUNDS, _STEPS = 2, 6
"""A second round begins with what the first has left of body and head."""

_CLOSE = 1e-4
"""How far values may be from those in float64, relative to the longest way of one of them."""

_KEPT, _SQUARES, _EPSILON = 0.9, 0.999, 1e-8


def optimizers(guarantee: SampleGuarantee) -> list[Check]:
    """Check each way to train a head, and each optimizer.

    Args:
        guarantee: Whose noise, rate and clip norm the steps have.
    """
    heads = get_args(Head)
    plain = [_check(f"values, {head}", guarantee, head, {}) for head in heads]
    moved = [
        _check(f"values, {name}, {head}", guarantee, head, how)
        for name, how in (("momentum", {"momentum": _KEPT}), ("AdamW", {"optimizer": "adamw", "momentum": _KEPT}))
        for head in ("joint", "alternate")
    ]
    return plain + moved


def steps_made() -> int:
    """The number of steps of `optimizers`."""
    heads = [*get_args(Head), *("joint", "alternate") * 2]
    return sum(_ROUNDS * (_STEPS + (_STEPS // 2 if head == "alternate" else 0)) for head in heads)


def _check(name: str, guarantee: SampleGuarantee, head: Head, how: Mapping[str, object]) -> Check:
    head_steps = _STEPS // 2 if head == "alternate" else 0
    made = dataclasses.replace(guarantee, phases=phases_of(_STEPS, head_steps), head=head)
    apart = _apart(Setting(made, microbatch=5, **how))  # type: ignore[arg-type]
    return Check(name, apart <= _CLOSE, f"{apart:.1e} of the way apart, in {_ROUNDS * (_STEPS + head_steps)} steps")


def _apart(setting: Setting) -> float:
    """How far a peer's values are from those that follow from what it has told, relative to their way."""
    records = of_all_lengths(setting.guarantee.clip_norm, 8)
    task, found = records.task(), 0.0
    with tempfile.TemporaryDirectory(prefix="dpeer-audit-") as folder:
        victim = learner(setting, records, task, Path(folder), _ROUNDS)
        for number in range(_ROUNDS):
            before = _values(task.model)
            victim.train(number)
            rows = told_by(victim.release(number), setting)
            expected = before.copy()
            for part, own in groupby(zip(setting.planned, rows, strict=True), key=lambda one: one[0]):
                columns = COLUMNS[part]
                gradients = [row.double().numpy()[columns] for _, row in own]
                expected[columns] += _way(setting.optimizer, setting.momentum, gradients)
            way = np.abs(expected - before).max()
            found = max(found, float(np.abs(_values(task.model) - expected).max() / way))
            victim.mix({1: [encode(torch.zeros(victim.shared_values))]}, ROW)
    return found


def _values(model: nn.Module) -> Array:
    """Body and head of one of the audit's models, shape (WIDTH,)."""
    parts = (model.get_submodule(name) for name in ("body", "head"))
    out = np.concatenate([one.detach().double().flatten().numpy() for part in parts for one in part.parameters()])
    assert len(out) == WIDTH > BODY
    return out


def _way(optimizer: Optimizer, momentum: float, gradients: Iterable[Array]) -> Array:
    """How far a phase's gradients move values, as the textbooks have it; moments begin at zero in each phase."""
    first = second = way = np.zeros(1)
    for number, gradient in enumerate(gradients, start=1):
        if optimizer == "adamw":
            first = momentum * first + (1 - momentum) * gradient
            second = _SQUARES * second + (1 - _SQUARES) * gradient**2
            mean, root = first / (1 - momentum**number), np.sqrt(second / (1 - _SQUARES**number))
            way = way - RATE * mean / (root + _EPSILON)
        else:
            first = momentum * first + gradient
            way = way - RATE * first
    return way
