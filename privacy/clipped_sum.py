"""The Gaussian mechanism for one step at sample level: a sum of clipped gradients, noised and divided.

    z = (sum of clip(g_i, C) over the drawn units + N(0, (sigma C)^2 I)) / (q N)

A unit is an example or a group of examples; g_i is its gradient. Adding or removing one unit moves the sum by at most
C. The noise is that of client level: the sum with it is one of real numbers and is rounded once, to a public grid
(`dpeer.privacy.noise`); the division is by a public number, whatever was drawn.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.privacy.noise import Values, grid, noised
from dpeer.privacy.sampling import check_rate

_MARGIN = 1 - 2.0**-10
"""Gradients are clipped to this part of C. In float32 the last bits of one unit's gradient can depend on who else is
computed beside it (by a millionth of C, as `dpeer.training.dpsgd.choosing` sees to). So one unit, there or not,
moves those of a thousand others by less than what is left of C."""


LONGEST = 1e18
"""Gradients that are longer, or not finite, count as zero: what scales them down would have too few digits."""


@dataclass(frozen=True)
class ClippedSum:
    """The mechanism of each step; what it needs is public.

    Attributes:
        clip_norm: C, above 0; infinite without noise.
        noise_multiplier: sigma, 0 or more; with 0 nothing is protected.
        rate: q, the probability with which each unit is drawn.
        units: N, how many units there are nominally: a public number, near the number that there are or not.

    Raises:
        ConfigurationError: A value is beyond its limits.
    """

    clip_norm: float
    noise_multiplier: float
    rate: float
    units: int

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if not self.clip_norm > 0.0:
            raise ConfigurationError(f"--clip-norm {self.clip_norm:g}: choose a length above 0, for example 1")
        if not 0.0 <= self.noise_multiplier < math.inf:
            raise ConfigurationError(f"--noise-multiplier {self.noise_multiplier:g}: choose a finite one, 0 or more")
        if self.noise_multiplier and math.isinf(self.clip_norm):
            raise ConfigurationError("--clip-norm inf: choose a finite one; noise is measured by it")
        if self.units < 1:
            raise ConfigurationError(f"nominal number of units {self.units}: choose 1 or more")

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

        Args:
            norms: The gradients' lengths, shape (units,); NaN or infinite where a gradient is not finite.
        """
        limit = self.clip_norm * _MARGIN
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(norms <= limit, 1.0, limit / norms)
        factors[~(norms <= (LONGEST if math.isfinite(self.clip_norm) else sys.float_info.max))] = 0.0
        return factors

    def released(self, total: Values, threads: int = 1) -> NDArray[np.float32]:
        """The step's gradient, which anybody may see: the sum noised and divided.

        Args:
            total: The sum of clipped gradients, shape (parameters,); zeros for an empty batch, which is noised alike.
            threads: How many draw noise at a time; what they draw does not depend on it.

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
