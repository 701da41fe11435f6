"""Whether noise that is known is there, everywhere, as normal as it should be, and fresh.

For an audit, which knows the update of each release and so its noise, here in units of its standard deviation. A check
that fails is a defect, not bad luck: about one in 10^7 would be a false alarm.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import fft, stats

from tests.federation.audit_suite.release_checks import ERRORS, RARE, Check

Array = NDArray[np.float64]


def never_twice(noise: Array) -> Check:
    """Check that no release has the noise of another one, which a seed that is used again would give."""
    distinct = len(np.unique(np.round(noise, 3), axis=0))
    return Check("fresh noise", distinct == len(noise), f"{distinct:,} different of {len(noise):,} releases")


def enough(noise: Array) -> Check:
    """Check that the noise is strong enough on each coordinate, and on all together."""
    squares = noise**2
    weakest, all_ = float(squares.mean(axis=0).min()), float(squares.mean())
    held = all(
        variance >= 1 - ERRORS * math.sqrt(2 / count) for variance, count in ((weakest, len(noise)), (all_, noise.size))
    )
    message = f"{math.sqrt(weakest):.3f} times what is claimed on the weakest, {math.sqrt(all_):.3f} on all"
    return Check("noise by coordinate", held, message)


def by_round(noise: Array, rounds: int) -> Check:
    """Check that the noise is as strong in each round as in the others."""
    squares = (noise**2).reshape(-1, rounds, noise.shape[1])
    weakest = float(squares.mean(axis=(0, 2)).min())
    least = 1 - ERRORS * math.sqrt(2 * rounds / noise.size)
    return Check("noise by round", weakest >= least, f"{math.sqrt(weakest):.3f} times what is claimed in the weakest")


def normal(noise: Array) -> Check:
    """Check that single values are normally distributed, in the middle and in the tails."""
    body = float(stats.kstest(noise.ravel(), "norm").pvalue)
    count = [int((np.abs(noise) > edge).sum()) for edge in (3.0, 4.0)]
    expected = [2 * stats.norm.sf(edge) * noise.size for edge in (3.0, 4.0)]
    tails = min(min(stats.poisson.cdf(k, m), stats.poisson.sf(k - 1, m)) for k, m in zip(count, expected, strict=True))
    return Check(
        "normal noise",
        bool(min(body, tails) > RARE),
        f"p {body:.2g}; beyond 4 deviations {count[1]:,} values of {expected[1]:,.0f} expected",
    )


def lengths(noise: Array) -> Check:
    """Check that all releases are equally noisy: their squared lengths have a chi-square distribution."""
    chance = float(stats.kstest((noise**2).sum(axis=1), stats.chi2(noise.shape[1]).cdf).pvalue)
    return Check("noise by release", chance > RARE, f"p {chance:.2g}")


def unrelated(noise: Array) -> Check:
    """Check that the noise of a coordinate tells nothing about another's noise, nor about its strength."""
    found = []
    for values in (noise, (noise**2 - 1) / math.sqrt(2)):
        products = values.T @ values / len(noise)
        np.fill_diagonal(products, 0.0)
        found.append(float(np.abs(products).max()))
    # Products of squares have longer tails than those of values.
    limit = ERRORS / math.sqrt(len(noise))
    held = found[0] <= limit and found[1] <= 3 * limit
    return Check("noise across coordinates", held, f"largest correlation {max(found):.3f} of {limit:.3f}")


def forgotten(noise: Array) -> Check:
    """Check that no noise comes again later, moved or turned around: values do not correlate with earlier ones."""
    values = noise.ravel()
    size, lags = values.size, np.arange(1, values.size // 2 + 1)
    padded = fft.next_fast_len(2 * size)
    products = fft.irfft(np.abs(fft.rfft(values, padded)) ** 2, padded)[lags]
    errors = float(np.abs(products / np.sqrt(size - lags)).max()) / float((values**2).mean() or 1.0)
    limit = float(stats.norm.isf(RARE / 2 / len(lags)))
    return Check("noise across releases", errors <= limit, f"largest correlation {errors:.1f} errors of {limit:.1f}")
