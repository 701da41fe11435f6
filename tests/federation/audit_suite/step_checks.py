"""What can be read off private steps whose draws are known, and off their ledger.

For an audit. A check that fails is a defect, not bad luck: each would be a false alarm in about one of 10^7 audits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpeer.privacy import accounting
from dpeer.privacy.accounting import Charge
from tests.federation.audit_suite.release_checks import RARE, Check

Array = NDArray[np.float64]
Draws = NDArray[np.bool_]

_SHORT, _LONG = 0.998, 1.0001
"""Between which a gradient that is clipped may be as long, over the clip norm: steps keep a little below it."""

_APART = 1e-4
"""How far a sum may be from one of clipped gradients, over the clip norm."""


def on_grid_after_division(released: NDArray[np.float32], step: float, divisor: float) -> Check:
    """Check that each value is a multiple of the grid over the public divisor, rounded to float32."""
    unit = step / divisor
    nearest = (np.rint(released.astype(np.float64) / unit) * unit).astype(np.float32)
    off = int((nearest != released).sum())
    return Check("grid", off == 0, f"{off:,} of {released.size:,} values are not on it")


def charged(
    charge: Charge, seen: Sequence[int], charges: Sequence[Sequence[Charge]], delta: float, message: float
) -> Check:
    """Check that the ledger has each step, no more noise and no lower rate, and no smaller epsilon than all."""
    counted = [_counted(charge, found) for found in charges]
    cost = accounting.total_epsilon([Charge(charge.sampling_rate, charge.noise_multiplier, seen[0])], delta)
    held = all(has >= is_seen for has, is_seen in zip(counted, seen, strict=True)) and message >= cost * (1 - 1e-9)
    return Check(
        "ledger", held, f"{sum(counted):,} of {sum(seen):,} steps counted, epsilon {message:.4g} of {cost:.4g}"
    )


def counted(name: str, charge: Charge, seen: int, charges: Iterable[Charge]) -> Check:
    """Check that the ledger has each step, with no more noise and no lower rate."""
    has = _counted(charge, charges)
    return Check(name, has >= seen, f"{has:,} of {seen:,} steps counted")


def _counted(charge: Charge, charges: Iterable[Charge]) -> int:
    return sum(
        found.steps
        for found in charges
        if found.noise_multiplier <= charge.noise_multiplier * (1 + 1e-12)
        and found.sampling_rate >= charge.sampling_rate
    )


def drawn(sums: Array, gradients: Array) -> tuple[Draws, float]:
    """Which gradients are in each sum, and how far the sums are from such ones."""
    times = np.stack([np.linalg.lstsq(one.T, total, rcond=None)[0] for total, one in zip(sums, gradients, strict=True)])
    found = np.rint(times) == 1.0
    once = np.where(found, (times >= _SHORT) & (times <= _LONG), np.abs(times) <= _APART / 0.1)
    left = np.abs(sums - (times[:, None, :] @ gradients)[:, 0]).max()
    return found, float(left) if once.all() else math.inf


def by_hand(name: str, apart: float, steps: int) -> Check:
    """Check that steps are sums of clipped gradients over a public number, to what `drawn` found."""
    return Check(name, apart <= _APART, f"{apart:.1e} clip norms apart, in {steps:,} steps")


def sampled(draws: Sequence[Draws], rate: float) -> list[Check]:
    """Check that each unit is drawn at the rate, and neither with the others nor in turns."""
    together = np.concatenate(draws)
    steps, units = together.shape
    each = _rarest(together.sum(axis=0), steps, rate) * units
    all_ = _rarest(np.array([together.sum()]), together.size, rate)
    share = Check(
        "sampling rate", min(each, all_) > RARE, f"{together.mean():.4f} of {rate:g}, p {min(each, all_, 1.0):.2g}"
    )
    many, size = together.sum(axis=1), max(1, round(rate * units))
    empty, usual = (int((many == found).sum()) for found in (0, size))
    chance = min(
        _rarest(np.array([count]), steps, float(binom.pmf(found, units, rate)))
        for found, count in ((0, empty), (size, usual))
    )
    sizes = Check(
        "batch sizes", chance > RARE, f"{empty:,} of {steps:,} are empty, {usual:,} have {size}, p {chance:.2g}"
    )
    # As many steps as a pass over the data has: a record that is shuffled is in one of them.
    whole = max(1, round(1 / rate))
    passes = np.concatenate([one[: len(one) // whole * whole].reshape(-1, whole, units) for one in draws])
    if not len(passes):
        passes = together[None]
    once = int((passes.sum(axis=1) == 1).sum())
    in_one = len(passes[0]) * rate * (1 - rate) ** (len(passes[0]) - 1)
    turns = _rarest(np.array([once]), passes.shape[0] * units, in_one)
    in_turns = Check("passes", turns > RARE, f"{once:,} of {passes.shape[0] * units:,} with one draw, p {turns:.2g}")
    return [share, sizes, in_turns]


def drawn_anew(draws: Sequence[Draws], rate: float) -> Check:
    """Check that no peer has the draws of another one, as it would if they followed from a public seed."""
    same = sum(np.array_equal(one, other) for place, one in enumerate(draws) for other in draws[:place])
    likely = max(rate, 1 - rate) ** draws[0].size  # more than that of any one outcome
    held = not same or likely > RARE
    return Check("fresh draws", held, f"{same} of {len(draws)} peers drew what another one drew")


def _rarest(counts: NDArray[np.int64], trials: int, probability: float) -> float:
    """The probability of a count that is as far out as the furthest of these, on both sides."""
    low, high = binom.cdf(counts.min(), trials, probability), binom.sf(counts.max() - 1, trials, probability)
    return float(min(1.0, 2 * min(low, high)))
