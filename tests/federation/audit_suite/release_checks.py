"""What can be read off releases whose updates are known: clipping, grid, base and charge; `residuals` has the noise.

For an audit. A check that fails is a defect, not bad luck: each is made at five and a half standard errors, or about
one false alarm in 10^7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.gaussian import epsilon as epsilon_of

Array = NDArray[np.float64]

ERRORS = 5.5
RARE = 1e-7
_DIGITS = 16
_EXACT = 1e-4


@dataclass(frozen=True)
class Check:
    """One property of the releases that was looked at.

    Attributes:
        name: What it is.
        held: Whether the releases have the property.
        message: The finding in words.
    """

    name: str
    held: bool
    message: str


def on_grid(released: Array, step: float) -> Check:
    """Check that every value is a multiple of the grid, so that the possible values do not depend on the update."""
    off = int((np.rint(released / step) * step != released).sum())
    return Check("grid", off == 0, f"{off:,} of {released.size:,} values are not on it")


def even_digits(steps: Sequence[Array]) -> Check:
    """Check that the last digits are equally likely on each coordinate: they tell nothing about the update."""
    every = np.concatenate([one.ravel() for one in steps]).astype(np.int64)
    expected = every.size / _DIGITS
    statistic = float(((np.bincount(every % _DIGITS, minlength=_DIGITS) - expected) ** 2 / expected).sum())
    limit = float(chi2.isf(RARE, _DIGITS - 1))
    odd = max(float(np.abs((one % 2).mean(axis=0) - 0.5).max()) * 2 * math.sqrt(len(one)) for one in steps)
    return Check(
        "last digits",
        bool(statistic <= limit and odd <= ERRORS),
        f"chi-square {statistic:.1f} of {limit:.1f}; odd on a coordinate {odd:.1f} errors of {ERRORS}",
    )


def clipped(name: str, along: Array, clip_norm: float, std: float) -> Check:
    """Check that an update longer than the clip norm moves the release by the clip norm and no more."""
    mean, error = float(along.mean()), std / math.sqrt(along.size)
    return Check(
        f"clipping, {name}",
        mean <= clip_norm + ERRORS * error,
        f"{mean / clip_norm:.3f} clip norms, ± {error / clip_norm:.3f}",
    )


def clipped_exactly(moved: Array, clip_norm: float) -> Check:
    """Check that with next to no noise all releases are finite, and no further from their base than the clip norm."""
    finite = bool(np.isfinite(moved).all())
    longest = float(np.linalg.norm(moved, axis=1).max()) / clip_norm if finite else math.inf
    return Check(
        "clipping, without noise", longest <= 1 + _EXACT, f"at most {longest:.5f} clip norms in {len(moved)} updates"
    )


def from_released(differences: Array) -> Check:
    """Check that updates start from what follows from releases alone; a peer that keeps its own body would leak it."""
    apart = float(np.abs(differences).max())
    return Check("base", apart == 0.0, f"{apart:g} from what neighbors can compute")


def charged(guarantee: Guarantee, seen: int, counted: Sequence[int], epsilons: Sequence[float]) -> Check:
    """Check that the ledger counts each message, and says no smaller epsilon than the messages cost."""
    cost = epsilon_of(guarantee.mu(seen), guarantee.delta)
    held = min(counted) >= seen and min(epsilons) >= cost * (1 - 1e-9)
    return Check(
        "ledger", held, f"{min(counted)} of {seen} messages counted, epsilon {min(epsilons):.4g} of {cost:.4g}"
    )
