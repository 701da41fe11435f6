"""What can be read off releases whose updates are known: is the noise there, everywhere, fresh, and on the grid?

For an audit, which knows the update of each release and so its noise. A check that fails is a defect, not bad luck:
each is made at five and a half standard errors, or about one false alarm in 10^7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from dpeer.privacy.gaussian import epsilon as epsilon_of
from dpeer.privacy.guarantee import Guarantee

Array = NDArray[np.float64]

_ERRORS = 5.5
_RARE = 1e-7
_LAGS = 3
_DIGITS = 16


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What it is.
        held: Whether it is as it must be.
        said: What was found.
    """

    name: str
    held: bool
    said: str


def on_grid(released: Array, step: float) -> Check:
    """Every value is a multiple of the grid: which values are possible does not depend on the update.

    Args:
        released: Values as neighbors got them, any shape.
        step: The grid.
    """
    off = int((np.rint(released / step) * step != released).sum())
    return Check("grid", off == 0, f"{off:,} of {released.size:,} values are not on it")


def never_twice(noise: Array) -> Check:
    """No release has the noise of another one, as it has under a seed that comes again.

    Args:
        noise: Shape (releases, coordinates), in units of the noise's standard deviation.
    """
    distinct = len(np.unique(np.round(noise, 3), axis=0))
    return Check("fresh noise", distinct == len(noise), f"{distinct:,} different of {len(noise):,} releases")


def enough(noise: Array) -> Check:
    """On no coordinate is the noise weaker than it should be.

    Args:
        noise: As in `never_twice`.
    """
    squares = noise**2
    weakest, all_ = float(squares.mean(axis=0).min()), float(squares.mean())
    held = all(
        variance >= 1 - _ERRORS * math.sqrt(2 / count)
        for variance, count in ((weakest, len(noise)), (all_, noise.size))
    )
    said = f"{math.sqrt(weakest):.3f} times what is claimed on the weakest, {math.sqrt(all_):.3f} on all"
    return Check("noise by coordinate", held, said)


def unrelated(noise: Array) -> Check:
    """The noise of one coordinate tells nothing about that of another.

    Args:
        noise: As in `never_twice`; two coordinates or more.
    """
    products = noise.T @ noise / len(noise)
    np.fill_diagonal(products, 0.0)
    largest = float(np.abs(products).max())
    limit = _ERRORS / math.sqrt(len(noise))
    return Check("noise across coordinates", largest <= limit, f"largest correlation {largest:.3f} of {limit:.3f}")


def forgotten(noise: Array) -> Check:
    """The noise of one release tells nothing about that of the next ones.

    Args:
        noise: As in `never_twice`, releases in their order.
    """
    lags = range(1, min(_LAGS, len(noise) - 1) + 1)
    largest = max((abs(float((noise[lag:] * noise[:-lag]).mean())) for lag in lags), default=0.0)
    limit = _ERRORS / math.sqrt((len(noise) - _LAGS) * noise.shape[1])
    return Check("noise across releases", largest <= limit, f"largest correlation {largest:.3f} of {limit:.3f}")


def even_digits(steps: Array) -> Check:
    """The last digits are as likely as each other: what is below the noise is not in them.

    Args:
        steps: Values in units of the grid, shape (values,).
    """
    counts = np.bincount(steps.astype(np.int64) % _DIGITS, minlength=_DIGITS)
    expected = steps.size / _DIGITS
    statistic = float(((counts - expected) ** 2 / expected).sum())
    limit = float(chi2.isf(_RARE, _DIGITS - 1))
    return Check("last digits", statistic <= limit, f"chi-square {statistic:.1f} of {limit:.1f}")


def clipped(name: str, along: Array, clip_norm: float, std: float) -> Check:
    """An update that is longer than the clip norm moves what is released by that and no more.

    Args:
        name: What the update was like.
        along: How far each release is from its base in the update's direction, shape (releases,).
        clip_norm: C.
        std: The noise on that.
    """
    mean, error = float(along.mean()), std / math.sqrt(along.size)
    return Check(
        f"clipping, {name}",
        mean <= clip_norm + _ERRORS * error,
        f"{mean / clip_norm:.3f} clip norms, ± {error / clip_norm:.3f}",
    )


def from_released(differences: Array) -> Check:
    """Updates start from what follows from releases alone; a peer that keeps its own body without noise leaks it.

    Args:
        differences: Between where the peer starts and where a neighbor says that it must, any shape.
    """
    apart = float(np.abs(differences).max())
    return Check("base", apart == 0.0, f"{apart:g} from what neighbors can compute")


def charged(guarantee: Guarantee, seen: int, counted: Sequence[int], epsilons: Sequence[float]) -> Check:
    """The ledger counts each message and says no smaller epsilon than they cost.

    Args:
        guarantee: What is claimed.
        seen: How many different messages the neighbor got in each run.
        counted: How many the ledger of each run has.
        epsilons: What each run says that it has spent.
    """
    cost = epsilon_of(guarantee.mu(seen), guarantee.delta)
    held = min(counted) >= seen and min(epsilons) >= cost * (1 - 1e-9)
    return Check(
        "ledger", held, f"{min(counted)} of {seen} messages counted, epsilon {min(epsilons):.4g} of {cost:.4g}"
    )
