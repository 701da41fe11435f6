"""The two Gaussian mechanisms: clipped updates, and clipped sums of gradients."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from dpeer.privacy import Sparsifier, clip, norm, privatize
from dpeer.privacy.mechanism import ClippedSum
from dpeer.privacy.noise import grid

NONE = Sparsifier()


def vector(*values):
    return np.array(values, dtype=np.float32)


def clipped(update, clip_norm):
    """The update as it is before noise, and what clipping met."""
    met = clip(np.zeros_like(update), update, clip_norm)
    return update.astype(np.float64) * met.factor, met


def test_a_short_update_is_left_alone():
    update, met = clipped(vector(0.3, -0.4), 1.0)
    assert update.tolist() == vector(0.3, -0.4).tolist()
    assert (met.clipped, met.finite) == (False, True)
    assert met.norm == pytest.approx(0.5)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e12, 1e37])
@pytest.mark.parametrize("clip_norm", [1e-3, 0.2, 7.0])
def test_a_long_update_is_never_longer_than_the_clip_norm_and_keeps_its_direction(scale, clip_norm):
    original = np.random.default_rng(1).normal(size=100_003).astype(np.float32) * np.float32(scale)
    length = math.sqrt(float(np.sum(original.astype(np.float64) ** 2)))
    update, met = clipped(original, clip_norm)
    assert met.norm == pytest.approx(length, rel=1e-9)
    assert math.sqrt(math.fsum(update**2)) <= clip_norm
    if length > clip_norm:
        assert met.clipped
        assert np.linalg.norm(update) == pytest.approx(clip_norm, rel=1e-8)
        direction = original.astype(np.float64) / length
        assert np.allclose(update / clip_norm, direction, atol=1e-6)


def test_an_update_exactly_as_long_as_the_clip_norm_is_not_longer_afterwards():
    """A sum in float64 comes out too small for some: without a margin they would be left as they are."""
    for seed in range(30):
        update = np.random.default_rng(seed).normal(size=1000).astype(np.float32)
        clip_norm = norm(np.zeros_like(update), update)
        assert math.sqrt(math.fsum(clipped(update, clip_norm)[0] ** 2)) <= clip_norm


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_becomes_zero(bad):
    base = vector(1.0, 1.0, 1.0)
    assert not clip(base, vector(1.0, bad, 2.0), 1.0).finite
    released, met = privatize(base, vector(1.0, bad, 2.0), 1.0, 1e-9, NONE, None)
    assert not met.finite
    assert released == pytest.approx(base, abs=1e-7)


def test_what_is_released_is_base_plus_clipped_update_plus_noise():
    rng = np.random.default_rng(3)
    base, body = (rng.normal(size=5000).astype(np.float32) for _ in range(2))
    before = base.copy(), body.copy()
    runs = np.array([privatize(base, body, 0.5, 0.1, NONE, None)[0] for _ in range(400)])
    update = (body - base).astype(np.float64)
    expected = base + update * 0.5 / np.linalg.norm(update)
    # Of 400 runs the mean of a coordinate has a standard deviation of 0.1 / 20.
    assert np.abs(runs.mean(0) - expected).max() < 6 * 0.1 / 20
    assert runs.std() ** 2 == pytest.approx(0.1**2 + expected.var(), rel=0.05)
    assert np.array_equal(base, before[0])
    assert np.array_equal(body, before[1])


def test_top_k_keeps_the_largest_noised_changes_and_the_base_elsewhere():
    base = np.arange(1000, dtype=np.float32)
    body = base.copy()
    body[:100] += 1000.0  # far above the noise, so these must be among the 400
    released, _ = privatize(base, body, 1e5, 1.0, Sparsifier.parse("top-k:0.4"), None)
    changed = released != base
    assert changed.sum() == 400
    assert changed[:100].all()
    assert np.abs((released - base)[changed]).min() > 0.3, "of 900 noises with deviation 1 the larger third"


def test_a_random_mask_leaves_the_clip_norm_to_what_is_kept():
    rng = np.random.default_rng(0)
    mask = Sparsifier.parse("random:0.25").mask(1000, rng)
    assert mask is not None
    assert mask.sum() == 250
    base = np.zeros(1000, dtype=np.float32)
    body = rng.normal(size=1000).astype(np.float32) * 10
    released, met = privatize(base, body, 2.0, 1e-9, Sparsifier.parse("random:0.25"), mask)
    assert not released[~mask].any()
    assert met.norm == pytest.approx(np.linalg.norm(body[mask].astype(np.float64)))
    assert np.linalg.norm(released.astype(np.float64)) == pytest.approx(2.0, rel=1e-5)


def test_a_mask_is_the_generators_and_knows_no_data():
    rule = Sparsifier.parse("random:0.4")
    a, b, c = (rule.mask(50, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)
    assert Sparsifier.parse("top-k:0.4").mask(50, np.random.default_rng(0)) is None
    assert Sparsifier().mask(50, np.random.default_rng(0)) is None


SPARSIFIERS = ["none", "top-k:0.3", "random:0.3"]


@pytest.mark.parametrize("sparsify", SPARSIFIERS)
@pytest.mark.parametrize("std", [1e-6, 0.3, 1.0, 4096.0, 1e9])
def test_every_released_value_is_on_the_grid(sparsify, std):
    rng = np.random.default_rng(5)
    kept = Sparsifier.parse(None if sparsify == "none" else sparsify)
    base, body = (rng.normal(size=20_001).astype(np.float32) for _ in range(2))
    released, _ = privatize(base, body, 1.0, std, kept, kept.mask(base.size, rng))
    steps = released.astype(np.float64) / grid(std)
    assert np.array_equal(steps, np.rint(steps))
    untouched = np.rint(base / grid(std)) == steps
    assert untouched.mean() == pytest.approx(0 if sparsify == "none" else 0.7, abs=0.01)


def test_what_is_too_large_to_travel_is_the_largest_multiple_that_can():
    base = np.full(1000, 65_000.0, dtype=np.float32)
    released, _ = privatize(base, base, 1.0, 3e5, NONE, None, largest=65_504.0)
    step = grid(3e5)
    assert released.max() == 65_504 // step * step == -released.min()
    assert (np.abs(released) < released.max()).any()


def test_the_grid_is_a_power_of_two_next_below_the_deviation_over_4096():
    for std in (1e-9, 0.7, 1.0, 1.999, 2.0, 12345.6):
        assert math.log2(grid(std)).is_integer()
        assert grid(std) <= std / 4096 < 2 * grid(std)


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


def test_factors() -> None:
    norms = np.array([0.0, 0.5, 1.9, 2.0, 4.0, 1e17, 1e300, math.inf, math.nan])
    factors = ClippedSum(2.0, 1.0, 0.5, 8).factors(norms)
    assert factors[:3].tolist() == [1.0, 1.0, 1.0]
    assert factors[-3:].tolist() == [0.0, 0.0, 0.0]
    clipped = (factors[:6] * norms[:6])[3:]
    assert (clipped < 2.0).all()
    assert clipped == pytest.approx([2.0] * 3, rel=2e-3)
    assert ClippedSum(math.inf, 0.0, 0.5, 8).factors(norms).tolist() == [1.0] * 7 + [0.0] * 2
