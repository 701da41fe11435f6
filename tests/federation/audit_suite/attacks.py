"""The attacks that an audit makes on the mechanism, and their results."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import get_args

import numpy as np

from dpeer.privacy import Guarantee, Sparsifier, mechanism
from dpeer.privacy.audit import bound_mu as audited
from dpeer.privacy.noise import grid
from dpeer.training.settings import WireDtype
from tests.federation.audit_suite import release_checks as checks
from tests.federation.audit_suite import residuals
from tests.federation.audit_suite.canary import COORDINATES, Array, Setting, View, view
from tests.federation.audit_suite.echo import LAYERS
from tests.federation.audit_suite.release_checks import Check

_OTHERS = 0.01
"""False alarms of all attacks together."""

_FAR, _NEAR = 1000.0, 1.5
"""Lengths of updates, in clip norms."""

_SPARSIFIERS = ("top-k:0.4", "random:0.4")
_EVERYWHERE = np.full(COORDINATES, COORDINATES**-0.5)
SHORT = 200
"""Releases in an attack on one way to send."""

_SMALL = (0.0, 0.1, 0.9)
_LENGTHS = (0.0, 0.5, 0.999, 1.001, 1.02, 1.1, 1.5, 10.0, 1e3, 1e6, 1e30, float("inf"), float("nan"))
"""The lengths of the updates that are tried, in clip norms."""

_WIDE = 200_003
"""Values of a body whose noise is drawn in several blocks, by several threads."""


def examine(guarantee: Guarantee, rounds: int, runs: int) -> list[Check]:
    """The checks of a mechanism, as a neighbor makes them that knows all but the noise."""
    setting = Setting(guarantee)
    apart = {"replace": -1.0, "zero-out": 0.0}[guarantee.adjacency]
    update = _FAR * guarantee.clip_norm * _EVERYWHERE
    first, second = ([view(setting, rounds, sign * update) for _ in range(runs)] for sign in (apart, 1.0))
    views = [*first, *second]
    noise = np.concatenate([_noise(setting, one, sign * update) for group, sign in ((first, apart), (second, 1.0))
                            for one in group])  # fmt: skip
    step = grid(guarantee.noise_std)
    released = [np.concatenate([one.released for one in group]) for group in (first, second)]
    near = view(setting, max(1, rounds * runs // 4), _NEAR * guarantee.clip_norm * _EVERYWHERE)
    return [
        checks.charged(guarantee, rounds, [one.counted for one in views], [one.epsilon for one in views]),
        checks.from_released(np.concatenate([one.strayed for one in views])),
        checks.on_grid(np.concatenate(released), step),
        checks.even_digits([one / step for one in released]),
        residuals.never_twice(noise),
        residuals.enough(noise),
        residuals.by_round(noise, rounds),
        residuals.lengths(noise),
        residuals.normal(noise),
        residuals.unrelated(noise),
        residuals.forgotten(noise),
        _short_updates(setting),
        _large_body(setting),
        _without_noise(setting),
        _clipping("far too long", setting, second),
        _clipping("a little too long", setting, [near]),
        _directions(setting, each(runs)),
        *(_way(Setting(guarantee, sparsifier, dtype)) for sparsifier, dtype in ways()),
    ]


def each(runs: int) -> int:
    """The number of releases of each data set in each direction."""
    return max(20, runs // 25)


def _noise(setting: Setting, one: View, update: Array) -> Array:
    """The noise of each release, in units of its standard deviation, on the coordinates that all releases have."""
    known = np.stack([setting.clipped(update, number) for number in range(len(one.moved))])
    noise: Array = (one.moved - known) / setting.guarantee.noise_std
    return noise


def _clipping(name: str, setting: Setting, views: Sequence[View]) -> Check:
    along = np.concatenate([one.moved @ _EVERYWHERE for one in views])
    return checks.clipped(name, along, setting.guarantee.clip_norm, setting.guarantee.noise_std)


def _short_updates(setting: Setting) -> Check:
    """Check the noise of updates that need no clipping, and of empty ones."""
    noise = []
    for length in _SMALL:
        update = length * setting.guarantee.clip_norm * _EVERYWHERE
        noise.append(_noise(setting, (view(setting, SHORT, update)), update))
    each = [residuals.enough(one) for one in noise]
    together = np.concatenate(noise)
    found = [*each, residuals.never_twice(together), residuals.normal(together), residuals.forgotten(together)]
    return _all("short updates", found, f"{len(together)} releases")


def _large_body(setting: Setting) -> Check:
    """Check the noise of a body of several blocks, which two threads draw."""
    nothing = np.zeros(_WIDE, dtype=np.float32)
    guarantee = setting.guarantee
    drawn, _ = mechanism.privatize(
        nothing, nothing, guarantee.clip_norm, guarantee.noise_std, kept=Sparsifier(), mask=None, threads=2
    )
    noise = drawn.astype(np.float64) / guarantee.noise_std
    parts = noise[: _WIDE // 100 * 100].reshape(100, -1).T
    found = [residuals.normal(noise), residuals.forgotten(noise), residuals.enough(parts), residuals.lengths(parts)]
    return _all("a large body", found, f"{_WIDE:,} values")


def _without_noise(setting: Setting) -> Check:
    """Check the clipping of updates of all lengths, in all layers and in single ones, with next to no noise."""
    exact = Setting(Guarantee(1e-6, setting.guarantee.clip_norm, setting.guarantee.delta))
    moved = [
        (view(exact, 1, np.where(side, length * exact.guarantee.clip_norm * np.where(side, side, 1), 0))).moved
        for length, side in itertools.product(_LENGTHS, _sides())
    ]
    return checks.clipped_exactly(np.concatenate(moved), exact.guarantee.clip_norm)


def _sides() -> list[Array]:
    """Directions of updates: all coordinates, one, and those of single layers."""
    layers = np.split(np.eye(COORDINATES), np.cumsum(LAYERS)[:-1])
    return [_EVERYWHERE, np.eye(COORDINATES)[-1], *(layer.sum(axis=0) / np.sqrt(len(layer)) for layer in layers)]


def _all(name: str, found: Sequence[Check], message: str) -> Check:
    failed = [check for check in found if not check.held]
    return Check(name, not failed, "; ".join(f"{check.name}: {check.message}" for check in failed) or message)


def axes() -> list[Array]:
    # Directions anybody may know; what matters is that they are not those of the long attack.
    drawn = np.linalg.qr(np.vander(np.linspace(-1, 1, COORDINATES)))[0]
    return [*np.eye(COORDINATES), *drawn.T]


def _directions(setting: Setting, each: int) -> Check:
    """Attack single releases in the direction of each coordinate, and in as many directions across the layers."""
    directions = axes()
    confidence = 1 - _OTHERS / 2 / len(directions)
    found = [_proven(setting, direction, direction, each, confidence) for direction in directions]
    claimed = setting.guarantee.mu(1)
    return Check(
        f"{len(directions)} directions", max(found) <= claimed, f"mu {max(found):.3f} of {claimed:.3f} in one release"
    )


def _proven(setting: Setting, direction: Array, counted: Array, each: int, confidence: float) -> float:
    """The mu that a few single releases prove, of data that push the body along a direction or against it."""
    apart = {"replace": -1.0, "zero-out": 0.0}[setting.guarantee.adjacency]
    far = _FAR * setting.guarantee.clip_norm * direction
    first, second = ((view(setting, each, sign * far)).moved @ counted for sign in (apart, 1.0))
    return audited(first, second, setting.guarantee.clip_norm * (1 + apart) / 2, confidence).mu


def ways() -> list[tuple[Sparsifier, WireDtype]]:
    """Every way to send that the long attack does not use."""
    rules = [Sparsifier(), *(Sparsifier.parse(rule) for rule in _SPARSIFIERS)]
    return [way for way in itertools.product(rules, get_args(WireDtype)) if way != (Sparsifier(), "float32")]


def _way(setting: Setting) -> Check:
    """The checks of a few releases that are sent in this way."""
    guarantee, rule = setting.guarantee, setting.sparsifier
    name = f"{'all values' if rule.rule == 'none' else f'{rule.rule}:{rule.keep:g}'}, {setting.dtype}"
    step = grid(guarantee.noise_std)
    if rule.rule == "top-k":
        found = _selection(setting, step)
    else:
        update = _FAR * guarantee.clip_norm * _EVERYWHERE
        one = view(setting, SHORT, update)
        noise = _noise(setting, one, update)
        masks = np.stack([setting.mask(number) for number in range(SHORT)])
        # Each release's own coordinates, so many in each: whichever they are, their noise is as strong and fresh.
        kept = noise[masks].reshape(SHORT, -1)
        along = (one.moved * np.where(masks, 1.0, 0.0)).sum(axis=1) / np.sqrt(masks.sum(axis=1))
        found = [
            checks.on_grid(one.released, step), checks.from_released(one.strayed), residuals.never_twice(kept),
            residuals.enough(kept), residuals.unrelated(kept), residuals.forgotten(kept), residuals.normal(kept),
            checks.clipped("far too long", along, guarantee.clip_norm, guarantee.noise_std),
            checks.charged(guarantee, SHORT, [one.counted], [one.epsilon]),
        ]  # fmt: skip
    return _all(name, found, f"{SHORT} releases")


def _selection(setting: Setting, step: float) -> list[Check]:
    """Check that the choice of kept coordinates tells no more about the update than the noise lets through."""
    guarantee, half = setting.guarantee, COORDINATES // 2
    sides = [np.r_[np.full(half, half**-0.5), np.zeros(COORDINATES - half)]]
    sides.append(sides[0][::-1])
    views = [(view(setting, SHORT, _FAR * guarantee.clip_norm * side)) for side in sides]
    more = [
        (np.abs(one.moved) > step).astype(float) @ np.r_[np.ones(half), -np.ones(COORDINATES - half)] for one in views
    ]
    proven = audited(more[1], more[0], 0.0, 1 - _OTHERS / 6).mu
    claimed = guarantee.mu(1)
    found = Check("which are kept", proven <= claimed, f"mu {proven:.3f} of {claimed:.3f}")
    released = np.concatenate([one.released for one in views])
    noise = np.concatenate([one.moved for one in views]) / guarantee.noise_std
    strayed = np.concatenate([one.strayed for one in views])
    return [
        checks.on_grid(released, step), residuals.never_twice(noise), checks.from_released(strayed), found,
        checks.charged(guarantee, SHORT, [one.counted for one in views], [one.epsilon for one in views]),
    ]  # fmt: skip


assert len(LAYERS) > 1, "a clip norm for each layer would go unnoticed"
