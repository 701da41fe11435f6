"""How releases were made before `dpeer.privacy.noise`: float32 noise from numpy's SFC64, added in float32.

It is broken in two ways, see `state_recovery` and `impossible_values`, and kept so that these attacks can be run on
what they break. Nothing outside these tests may use it.
"""

import math
import os

import numpy as np

from dpeer.privacy import Clipped, Sparsifier, Vector
from dpeer.privacy.mechanism import LARGEST, Mask


def draw_noise(size: int, std: float, seed: int | None = None) -> Vector:
    """Normal noise, shape (size,), of a generator made for this call, with this seed or one of the operating system."""
    seed = int.from_bytes(os.urandom(32), "little") if seed is None else seed
    fresh = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
    noise = fresh.standard_normal(size, dtype=np.float32)
    noise *= np.float32(std)
    return noise


def clip(update: Vector, clip_norm: float) -> Clipped:
    """Scale the update down to the clip norm where it is longer, in place; one that is not finite becomes zero."""
    length = math.sqrt(float(np.square(update, dtype=np.float64).sum()))
    if not math.isfinite(length):
        update.fill(0)
        return Clipped(0.0, clipped=False, finite=False, factor=0.0)
    if length <= clip_norm:
        return Clipped(length, clipped=False, finite=True, factor=1.0)
    factor = clip_norm / length * (1 - 1e-6)
    update[:] = update.astype(np.float64) * factor
    return Clipped(length, clipped=True, finite=True, factor=factor)


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
    seed: int | None = None,
) -> tuple[Vector, Clipped]:
    """What was released of a body: as `dpeer.privacy.privatize`, with which it shares its arguments.

    Args:
        base: Shape (parameters,).
        body: The trained body, same shape; not changed.
        clip_norm: C.
        noise_std: Of each coordinate.
        kept: What of the noised update is kept.
        mask: For `random` sparsifiers, the coordinates that are clipped and noised.
        largest: What is beyond it is set to it.
        threads: Not used: it drew all noise with one generator.
        seed: Of the noise, for a test that comes out the same each time.
    """
    update = body - base
    if mask is not None:
        update = update[mask]
    met = clip(update, clip_norm)
    update += draw_noise(update.size, noise_std, seed)
    released = base.copy()
    if mask is not None:
        released[mask] += update
    else:
        kept.drop(update)
        released += update
    return np.clip(released, -largest, largest), met
