"""Exact Gaussian noise: the grid point nearest to a real number plus an exactly normal deviate.

    k = the integer nearest to (x + s N) / g,        N ~ N(0, 1)

x is private, s is the noise's standard deviation and g a grid that follows from s alone. As a function of real numbers
that is the Gaussian mechanism followed by rounding, which is post-processing: k gives away what the closed form says
and nothing more, whatever x is and however many decimals it has. Computed in floating point it would not be: which
values are possible at all, and how often each is, would depend on the last digits of x (Mironov, On significance of the
least significant bits for differential privacy, 2012). So k is computed exactly, by the Box-Muller transform:

    N = sqrt(-2 ln U) cos(2 pi V)   and   sqrt(-2 ln U) sin(2 pi V)

U and V are uniform numbers of infinitely many random bits, of which 64 are drawn at first. In float64 that gives N to
within `ERROR`. Almost always that decides k. Where it does not (one value in some millions: the sum lies so close to
the middle between two integers that the error could matter, or U is so close to 0 or 1 that 64 bits are too few),
interval arithmetic with more digits and, if need be, more bits of U and V decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from mpmath.ctx_iv import MPIntervalContext
from mpmath.libmp import to_rational
from numpy.typing import NDArray

from dpeer.privacy.randomness import Keystream

Values = NDArray[np.float64]
Words = NDArray[np.uint64]

SCHEME = "exact Gaussian on a grid, AES-256-CTR"
"""Written into ledgers: how this version draws noise. What was drawn otherwise is no protection (docs/privacy.md)."""

GRID_BITS = 12
"""The grid is the largest power of two that is at most s * 2^-12."""

ERROR = 2.0**-36
"""More than |N computed in float64 - N|, wherever `_far` holds. It was never found above 2^-42."""

_BLOCK = 1 << 16
"""Values that are handled together: they stay in the processor's cache, and the calls do not count."""

_EDGE = np.uint64(1 << 40)
"""U within 2^40 * 2^-64 of 0 or of 1 is left to interval arithmetic: there 64 bits, or float64's 53, are too few."""

_MORE = 1 << 96
"""Where in the keystream further bits of U and V lie: 2^32 blocks for each pair of values."""


def grid(std: float) -> float:
    """g, the grid of noise with this standard deviation: a power of two with 2^12 g <= std < 2^13 g."""
    return 2.0 ** (math.frexp(std)[1] - 1 - GRID_BITS)


def noised(
    size: int, std: float, values: Callable[[slice], Values], give: Callable[[slice, Values], None], threads: int = 1
) -> None:
    """Add noise under a fresh private key, block by block.

    Args:
        size: How many values.
        std: s, above 0.
        values: Gives x / g for a slice of them, exactly; called once for each block, from any of the threads.
        give: Called with a slice and its k, whole numbers as float64, from any of the threads.
        threads: How many work; the result is the same.
    """
    stream = Keystream()
    scale = std / grid(std)

    def work(start: int) -> None:
        here = slice(start, min(start + _BLOCK, size))
        give(here, _block(values(here), scale, stream, start))

    try:
        starts = range(0, size, _BLOCK)
        if threads == 1 or len(starts) <= 1:
            for start in starts:
                work(start)
        else:
            with ThreadPoolExecutor(min(threads, len(starts)), "noise") as pool:
                list(pool.map(work, starts))
    finally:
        stream.forget()


def _block(values: Values, scale: float, stream: Keystream, start: int) -> Values:
    """K for values that begin at place `start` (a multiple of the block) of all."""
    half = -(-len(values) // 2)  # a pair of deviates for values i and half + i
    first = start // 2
    bits = stream.words(first, 2 * half)  # a word for U and one for V: 16 bytes, a block of the keystream for each pair
    u, v = bits[:half], bits[half:]
    # The whole part is added at the end: the sum below stays small, so it is as precise as the deviate.
    whole = np.rint(values)
    rest = values - whole
    sums = np.empty(2 * half)
    cosines_and_sines(u, v, sums)
    sums *= scale
    sums = sums[: len(values)]
    sums += rest
    steps = np.rint(sums)
    sums -= steps
    unsure = np.abs(sums, out=sums) > 0.5 - scale * ERROR
    far = _far(u)
    if not far.all():
        unsure |= ~np.concatenate([far, far])[: len(values)]
    for place in np.flatnonzero(unsure).tolist():
        pair = place % half
        more = FurtherBits(stream, first + pair, int(u[pair]), int(v[pair : pair + 1].view(np.int64)[0]))
        steps[place] = decide(float(rest[place]), scale, more, sine=place >= half)
    steps += whole
    return steps


def _far(u: Words) -> NDArray[np.bool_]:
    """Which U are far enough from 0 and 1 for float64; integers wrap around, so both ends are one interval."""
    return u + _EDGE >= np.uint64(2) * _EDGE


def cosines_and_sines(u: Words, v: Words, out: Values) -> None:
    """The deviates that 64 bits of U and V give in float64.

    Args:
        u: U * 2^64, rounded down; shape (half,).
        v: V * 2^64, rounded down, V from -1/2 to 1/2, in two's complement; shape (half,).
        out: Gets those of the cosine, then those of the sine; shape (2 * half,).
    """
    cosine, sine = out[: len(u)], out[len(u) :]
    with np.errstate(divide="ignore", invalid="ignore"):  # U = 0, which is not used
        radius = u * 2.0**-64
        np.log(radius, out=radius)
        radius *= -2.0
        np.sqrt(radius, out=radius)
    # By the tangent t of half the angle: cos = 2 / (1 + t^2) - 1, sin = 2 t / (1 + t^2). It is several times faster
    # than numpy's cos and sin, and an error in t matters no more than the same in the angle.
    tangent = v.view(np.int64) * (math.pi * 2.0**-64)
    np.tan(tangent, out=tangent)
    np.multiply(tangent, tangent, out=cosine)
    cosine += 1.0
    np.divide(2.0, cosine, out=cosine)
    np.multiply(tangent, cosine, out=sine)
    cosine -= 1.0
    cosine *= radius
    sine *= radius


class FurtherBits:
    """`u` and `v` are U and V of one pair times 2^bits, rounded down; both values of the pair get the same bits."""

    def __init__(self, stream: Keystream, pair: int, u: int, v: int) -> None:
        self._stream, self._block = stream, _MORE + (pair << 32)
        self.u, self.v, self.bits = u, v, 64

    def draw(self) -> None:
        """Draw 64 more of each."""
        u, v = self._stream.words(self._block, 2).tolist()
        self.u, self.v, self.bits, self._block = self.u << 64 | u, self.v << 64 | v, self.bits + 64, self._block + 1


def decide(rest: float, scale: float, known: FurtherBits, *, sine: bool) -> int:
    """The integer nearest to rest + scale * N, by interval arithmetic; N is the sine or the cosine of known U and V."""
    # A context of its own: the module's is shared by all threads and by other users of mpmath.
    interval = MPIntervalContext()
    while True:
        interval.prec = known.bits + 64
        unit = interval.mpf(2) ** -known.bits
        if known.u > 0:
            radius = interval.sqrt(-2 * interval.log(interval.mpf([known.u, known.u + 1]) * unit))
            angle = 2 * interval.pi * interval.mpf([known.v, known.v + 1]) * unit
            deviate = radius * (interval.sin(angle) if sine else interval.cos(angle))
            total = interval.mpf(rest) + interval.mpf(scale) * deviate + interval.mpf(0.5)
            low, high = (numerator // denominator for numerator, denominator in map(to_rational, total._mpi_))
            if low == high:
                return int(low)
        known.draw()
