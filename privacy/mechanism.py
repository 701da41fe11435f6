"""The Gaussian mechanism for one peer's update (client level): clip it as a whole, add noise, round to a public grid.

    z = g * (round(base / g) + round((clip(update, C) + N(0, s^2 I)) / g))

The sum with the noise is that of real numbers and is rounded once (`dpeer.privacy.noise`), so rounding costs no
privacy and the sensitivity stays what clipping makes it. All else is a function of that result and of what is public.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpeer.privacy.noise import Values, grid, noised
from dpeer.privacy.sparsify import Sparsifier

Vector: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

_CHUNK = 1 << 16
_MARGIN = 1 - 2.0**-30
"""What rounding in float64 can add to a length is far less: a clipped update is never longer than the clip norm."""

LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Clipped:
    """What clipping found and did; for the peer's own files, never for its neighbors.

    Attributes:
        norm: Length of the update before clipping; 0 if it was not finite.
        clipped: Whether it was longer than the clip norm.
        finite: False if it had a NaN or an infinity and was replaced by zero.
        factor: What the update is multiplied by.
    """

    norm: float
    clipped: bool
    finite: bool
    factor: float


def clip(base: Vector, body: Vector, clip_norm: float) -> Clipped:
    """How to clip the update, body - base: a longer one to the clip norm, one that is not finite to zero."""
    length = norm(base, body)
    if not math.isfinite(length):
        return Clipped(0.0, clipped=False, finite=False, factor=0.0)
    limit = clip_norm * _MARGIN
    if length <= limit:
        return Clipped(length, clipped=False, finite=True, factor=1.0)
    return Clipped(length, clipped=length > clip_norm, finite=True, factor=limit / length)


def norm(base: Vector, body: Vector) -> float:
    """Euclidean length of body - base, summed in float64; NaN or infinite where a value is."""
    total = 0.0
    for here in _parts(body.size):
        wide = _update(base, body, here)
        wide *= wide  # a dot product would wake up the threads of the linear algebra library, one a core, in every peer
        total += float(wide.sum())
    return math.sqrt(total) if total >= 0 else math.nan


def _update(base: Vector, body: Vector, here: slice) -> Values:
    return np.subtract(body[here], base[here], dtype=np.float64)


def _parts(size: int) -> Iterator[slice]:
    """Slices of a vector, each small enough to stay in the processor's cache as float64."""
    return (slice(start, start + _CHUNK) for start in range(0, size, _CHUNK))


def privatize(
    base: Vector,
    body: Vector,
    clip_norm: float,
    noise_std: float,
    kept: Sparsifier,
    mask: Mask | None,
    *,
    largest: float = LARGEST,
    threads: int = 1,
) -> tuple[Vector, Clipped]:
    """Clip and noise a body's update, so that the body may be released.

    Args:
        base: Shape (parameters,); a function of released values only.
        body: The trained body, same shape; not changed.
        clip_norm: C.
        noise_std: s, of each coordinate.
        kept: What of the noised update is kept.
        mask: For `random` sparsifiers: which coordinates, drawn without the data; only these are clipped and noised.
        largest: The largest value that can travel; what is beyond it is set to it.
        threads: How many draw noise at a time; what they draw does not depend on it.

    Returns:
        z, a new array of multiples of `grid(noise_std)`, and what clipping met.
    """
    there = (base, body) if mask is None else (base[mask], body[mask])
    step = grid(noise_std)
    met = clip(*there, clip_norm)
    steps = np.zeros(body.size, dtype=np.float32)
    drawn = steps if mask is None else np.empty(there[0].size, dtype=np.float32)

    def values(here: slice) -> Values:
        if not met.finite:
            return np.zeros(len(there[0][here]))
        update = _update(*there, here)
        update *= met.factor
        update /= step  # a power of two: exact
        return update

    def give(here: slice, noisy: Values) -> None:
        drawn[here] = noisy

    noised(drawn.size, noise_std, values, give, threads)
    if mask is None:
        kept.drop(drawn)
    else:
        steps[mask] = drawn
    return _on_grid(base, steps, step, largest), met


def _on_grid(base: Vector, steps: Vector, step: float, largest: float) -> Vector:
    """Replace the steps by the values that lie so many steps from the grid point next to the base.

    A value of more digits than float32 has is rounded to fewer, that is to a multiple of a larger power of two.
    """
    limit = np.floor(largest / step) * step
    for here in _parts(steps.size):
        wide = np.divide(base[here], step, dtype=np.float64)
        np.rint(wide, out=wide)
        wide += steps[here]
        wide *= step
        np.clip(wide, -limit, limit, out=wide)
        steps[here] = wide
    return steps
