"""Poisson sampling of a step's units, independently and from private randomness.

Accounting of the Poisson-subsampled Gaussian rests on both. Batches of a fixed size, shuffled epochs, or draws that
follow from a public seed get no amplification from it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpeer.privacy.randomness import Keystream

Indices = NDArray[np.int64]

_AT_ONCE = 1 << 16
"""Units that are drawn together: their bits stay in the processor's cache."""


class Poisson:
    """Draws each of so many units with the same probability, independently, with fresh private bits for each draw.

    A unit is drawn where 64 bits, read as a fraction, are below the rate. So the rate is exact, but for what it has
    beyond 64 binary digits; that is cut off, which protects more.

    Args:
        units: The number to draw from, 1 or more.
        rate: q, above 0 and at most 1; with 1 every draw has all of them.
    """

    def __init__(self, units: int, rate: float) -> None:
        self.units, self.rate = units, rate
        self._below = int(Fraction(rate) * 2**64)

    def draw(self) -> Indices:
        """The units of the next step, ascending; often other numbers of them, and sometimes none."""
        if self.rate == 1.0:
            return np.arange(self.units, dtype=np.int64)
        stream, below = Keystream(), np.uint64(self._below)
        try:
            # 16 bytes, a block of the keystream, are two words.
            drawn = [
                start + np.flatnonzero(stream.words(start // 2, min(_AT_ONCE, self.units - start)) < below)
                for start in range(0, self.units, _AT_ONCE)
            ]
        finally:
            stream.forget()
        return np.concatenate(drawn).astype(np.int64, copy=False)
