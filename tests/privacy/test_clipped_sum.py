"""The mechanism of a step at sample level: factors, the exact noise of client level, a public divisor."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from dpeer.privacy.mechanism import ClippedSum
from dpeer.privacy.noise import grid


def test_noise_is_on_the_grid_normal_and_as_strong_as_stated() -> None:
    mechanism = ClippedSum(clip_norm=0.3, noise_multiplier=1.7, rate=0.05, units=1000)
    assert mechanism.noise_std == pytest.approx(0.51)
    assert mechanism.expected == pytest.approx(50.0)
    size = 200_000
    total = np.linspace(-3, 3, size)
    released = mechanism.released(total)
    assert released.dtype == np.float32
    noise = released * 50.0 - total
    assert abs(noise.mean()) < 5 * 0.51 / math.sqrt(size)
    assert noise.std() == pytest.approx(0.51, rel=5 / math.sqrt(2 * size))
    assert kstest(noise / 0.51, "norm").pvalue > 1e-5
    steps = released.astype(np.float64) * 50.0 / grid(0.51)
    assert np.abs(steps - np.rint(steps)).max() < 1e-2, "sums and noise are rounded together, to a public grid"
    assert abs(np.corrcoef(noise, np.abs(total))[0, 1]) < 5 / math.sqrt(size)
    assert not np.array_equal(mechanism.released(total), released)


def test_threads_and_an_empty_sum() -> None:
    mechanism = ClippedSum(1.0, 2.0, 0.1, 100)
    found = mechanism.released(np.zeros(150_000), threads=2)
    assert found.std() == pytest.approx(2.0 / 10, rel=0.02)


def test_without_noise_only_the_division_is_left() -> None:
    mechanism = ClippedSum(math.inf, 0.0, 0.5, 8)
    total = np.array([1.0, -2.0, 1e30])
    assert mechanism.released(total).tolist() == (total / 4).astype(np.float32).tolist()


def test_factors() -> None:
    norms = np.array([0.0, 0.5, 1.9, 2.0, 4.0, 1e17, 1e300, math.inf, math.nan])
    factors = ClippedSum(2.0, 1.0, 0.5, 8).factors(norms)
    assert factors[:3].tolist() == [1.0, 1.0, 1.0]
    assert factors[-3:].tolist() == [0.0, 0.0, 0.0]
    clipped = (factors[:6] * norms[:6])[3:]
    assert (clipped < 2.0).all()
    assert clipped == pytest.approx([2.0] * 3, rel=2e-3)
    assert ClippedSum(math.inf, 0.0, 0.5, 8).factors(norms).tolist() == [1.0] * 7 + [0.0] * 2
