"""The two Gaussian mechanisms: a clipped update for client level, a sum of clipped gradients for sample level.

Client level clips one peer's update as a whole and adds noise; sample level clips each unit's gradient, a unit being an
example or a group of examples, sums them and adds noise:

    z = g * (round(base / g) + round((clip(update, C) + N(0, s^2 I)) / g))
    z = (sum of clip(g_i, C) over the sampled units + N(0, (sigma C)^2 I)) / (q N)

The sum with the noise is that of real numbers and is rounded once, to a public grid (`dpeer.privacy.noise`), so
rounding costs no privacy and the sensitivity stays what clipping makes it. All else is a function of that result and of
public numbers; q N in particular does not depend on which units were sampled.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.privacy.noise import Values, grid, noised

Vector: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

_CHUNK = 1 << 16
_ROUNDING_MARGIN = 1 - 2.0**-30
"""What rounding in float64 can add to a length is far less: a clipped update is never longer than the clip norm."""

LARGEST = float(np.finfo(np.float32).max)

GRADIENT_MARGIN = 1 - 2.0**-10
"""Gradients are clipped to this part of C. In float32 the last bits of one unit's gradient can depend on who else is
computed beside it (by a millionth of C, as `dpeer.training.dpsgd.backend_choice` sees to). So one unit, there or not,
moves those of a thousand others by less than what is left of C."""

LONGEST = 1e18
"""Gradients that are longer, or not finite, count as zero: what scales them down would have too few digits."""


@dataclass(frozen=True)
class Sparsifier:
    """Which coordinates of an update are released.

    `top-k` chooses after the noise, so it is post-processing: it changes neither epsilon nor the noise (as
    DP-FedSAM-top_k should; choosing by the private update before the noise is unsound). `random` chooses without the
    data, before clipping, so that the clip norm is spent on the kept coordinates alone. `keep` is the share, in (0, 1].
    """

    rule: Literal["none", "top-k", "random"] = "none"
    keep: float = 1.0

    @classmethod
    def parse(cls, text: str | None) -> Sparsifier:
        """Read `top-k:0.4` or `random:0.4`; None keeps everything.

        Raises:
            ConfigurationError: It is something else.
        """
        if text is None:
            return cls()
        rule, _, share = text.partition(":")
        with suppress(ValueError):
            if rule in ("top-k", "random") and 0 < (keep := float(share)) <= 1:
                return cls("top-k" if rule == "top-k" else "random", keep)
        raise ConfigurationError(
            f"--sparsify {text!r}: write top-k:SHARE or random:SHARE with the share to keep, for example top-k:0.4"
        )

    def count(self, size: int) -> int:
        """The number of coordinates that are kept of `size`, at least one."""
        return min(size, max(1, round(self.keep * size)))

    def drop(self, update: NDArray[np.float32]) -> None:
        """`top-k`: set all but the largest coordinates (by magnitude) of a noised update to zero, in place."""
        if self.rule != "top-k" or self.count(update.size) == update.size:
            return
        dropped = update.size - self.count(update.size)
        update[np.argpartition(np.abs(update), dropped)[:dropped]] = 0

    def mask(self, size: int, generator: np.random.Generator) -> NDArray[np.bool_] | None:
        """`random`: which coordinates are kept, shape (size,), drawn with a generator that knows no data; else None."""
        if self.rule != "random" or self.count(size) == size:
            return None
        mask = np.zeros(size, dtype=np.bool_)
        mask[generator.permutation(size)[: self.count(size)]] = True
        return mask


@dataclass(frozen=True)
class Clipped:
    """What clipping found and did; for the peer's own files, never for its neighbors.

    Attributes:
        norm: Length of the update before clipping; 0 if it was not finite, and so was replaced by zero.
        clipped: Whether it was longer than the clip norm.
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
    limit = clip_norm * _ROUNDING_MARGIN
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
    """The body as it may be released, its update clipped and noised.

    Args:
        base: Shape (parameters,); a function of released values only.
        body: Same shape; not changed.
        clip_norm: C.
        noise_std: s, of each coordinate.
        kept: What of the noised update is kept.
        mask: For `random` sparsifiers: which coordinates, drawn without the data; only these are clipped and noised.
        largest: The largest value that can travel; what is beyond it is set to it.
        threads: How many draw noise; what they draw does not depend on it.

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


@dataclass(frozen=True)
class ClippedSum:
    """The mechanism of each step; what it needs is public: see `dpeer.privacy.guarantee.SampleGuarantee`.

    Attributes:
        clip_norm: C, above 0; infinite without noise.
        noise_multiplier: sigma, 0 or more; with 0 nothing is protected.
    """

    clip_norm: float
    noise_multiplier: float
    rate: float
    units: int

    @property
    def noise_std(self) -> float:
        """Of each coordinate of the sum: sigma C."""
        return self.noise_multiplier * self.clip_norm if self.noise_multiplier else 0.0

    @property
    def expected(self) -> float:
        """What the noised sum is divided by, q N, however many units were drawn."""
        return self.rate * self.units

    def factors(self, norms: Values) -> Values:
        """What each gradient is multiplied by, shape (units,): 1 up to the clip norm, 0 beyond what can be scaled.

        It is not finite where a gradient is not.
        """
        limit = self.clip_norm * GRADIENT_MARGIN
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(norms <= limit, 1.0, limit / norms)
        factors[~(norms <= (LONGEST if math.isfinite(self.clip_norm) else sys.float_info.max))] = 0.0
        return factors

    def released(self, total: Values, threads: int = 1) -> NDArray[np.float32]:
        """The step's gradient, which anybody may see: the sum, of shape (parameters,), noised and divided.

        An empty batch, of zeros, is noised alike. What is drawn does not depend on the number of threads.

        Raises:
            TaskError: A coordinate is not finite: no noise would hide that.
        """
        if not np.isfinite(total).all():
            raise TaskError("the sum of clipped gradients is not finite, which no noise would hide")
        out = np.empty(total.size, dtype=np.float32)
        if not self.noise_std:
            out[:] = total / self.expected
            return out
        step = grid(self.noise_std)  # a power of two: dividing by it is exact

        def give(here: slice, steps: Values) -> None:
            out[here] = steps * (step / self.expected)

        noised(total.size, self.noise_std, lambda here: total[here] / step, give, threads)
        return out
