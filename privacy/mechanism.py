"""The Gaussian mechanism for one peer's update (client level): clip it as a whole, then add noise.

    z = base + clip(update, C) + N(0, s^2 I)

Arrays are flat float32. Floating-point rounding can leak low-order bits of what is hidden; that is out of scope.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpeer.privacy.sparsify import Sparsifier

Vector: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

_CHUNK = 1 << 16
_MARGIN = 1 - 1e-6
"""Rounding to float32 after scaling must not make the update longer than the clip norm."""


@dataclass(frozen=True)
class Clipped:
    """What clipping met; for the peer's own files, never for its neighbors.

    Attributes:
        norm: Length of the update before, 0 if it was not finite.
        clipped: Whether it was longer than the clip norm.
        finite: False if it had a NaN or an infinity and was replaced by zero.
    """

    norm: float
    clipped: bool
    finite: bool


def clip(update: Vector, clip_norm: float) -> Clipped:
    """Scale the update down to the clip norm where it is longer, in place; one that is not finite becomes zero."""
    length = norm(update)
    if not math.isfinite(length):
        update.fill(0)
        return Clipped(0.0, clipped=False, finite=False)
    if length <= clip_norm:
        return Clipped(length, clipped=False, finite=True)
    factor = clip_norm / length * _MARGIN
    for part in _parts(update):
        part[:] = part.astype(np.float64) * factor  # in float32 a tiny factor has few digits left
    return Clipped(length, clipped=True, finite=True)


def norm(vector: Vector) -> float:
    """Euclidean length, summed in float64; NaN or infinite where a value is."""
    total = 0.0
    for part in _parts(vector):
        wide = part.astype(np.float64)
        wide *= wide  # a dot product would wake up the threads of the linear algebra library, one a core, in every peer
        total += float(wide.sum())
    return math.sqrt(total) if total >= 0 else math.nan


def _parts(vector: Vector) -> Iterator[Vector]:
    """Views of it, of a size that stays in the processor's cache as float64."""
    for start in range(0, vector.size, _CHUNK):
        yield vector[start : start + _CHUNK]


def draw_noise(size: int, std: float) -> Vector:
    """Independent normal noise of this standard deviation, shape (size,), that nobody can draw again.

    Its generator is seeded by the operating system for this call and then forgotten.
    """
    fresh = np.random.Generator(np.random.SFC64(np.random.SeedSequence(int.from_bytes(os.urandom(32), "little"))))
    noise = fresh.standard_normal(size, dtype=np.float32)
    noise *= np.float32(std)
    return noise


def privatize(
    base: Vector, body: Vector, clip_norm: float, noise_std: float, kept: Sparsifier, mask: Mask | None
) -> tuple[Vector, Clipped]:
    """What may be released of a body.

    Args:
        base: Shape (parameters,); a function of released values only.
        body: The trained body, same shape; not changed.
        clip_norm: C.
        noise_std: s, of each coordinate.
        kept: What of the noised update is kept.
        mask: For `random` sparsifiers: which coordinates, drawn without the data; only these are clipped and noised.

    Returns:
        z, a new array, and what clipping met.
    """
    update = body - base
    if mask is not None:
        update = update[mask]
    met = clip(update, clip_norm)
    update += draw_noise(update.size, noise_std)
    released = base.copy()
    if mask is not None:
        released[mask] += update
    else:
        kept.drop(update)
        released += update
    return released, met
