"""Under the old scheme the last digits of a release told two data sets apart at any epsilon; now they tell nothing."""

import itertools
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from dpeer.privacy import Sparsifier, Vector, gaussian, privatize
from dpeer.privacy.noise import grid

from . import old_scheme
from .impossible_values import clipped_update, impossible, steps

Pair: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]

CLIP_NORM = 1.0
CLASSES, PIXELS = 10, 784
MULTIPLIERS = [5.0, 50.0, 1000.0, 10_000.0]
NEAR = 1e-3
"""Noise so many standard deviations long is looked at: few numbers below are noise that the old scheme can draw."""


def trained(base: Vector, images: NDArray[np.float32], labels: NDArray[np.int64]) -> Vector:
    """Logistic regression in float32, ten steps; the same on the same data."""
    body = base.reshape(CLASSES, PIXELS).copy()
    for _ in range(10):
        wrong = np.exp(images @ body.T)
        wrong /= wrong.sum(1, keepdims=True)
        wrong[np.arange(len(labels)), labels] -= 1
        body -= np.float32(0.02 / len(labels)) * (wrong.T @ images)
    return body.ravel()


@pytest.fixture(scope="module")
def bodies() -> tuple[Vector, Vector, Vector]:
    """A base, what a peer makes of it, and what it would have made had one pixel of one image not been dark."""
    draw = np.random.default_rng(1)
    base = draw.normal(0, 0.05, CLASSES * PIXELS).astype(np.float32)
    images, labels = draw.random((100, PIXELS), dtype=np.float32), draw.integers(0, CLASSES, 100)
    images[7, 400] = 0
    other = images.copy()
    other[7, 400] = 1
    return base, trained(base, images, labels), trained(base, other, labels)


@pytest.fixture(scope="module")
def updates(bodies: tuple[Vector, Vector, Vector]) -> tuple[Vector, Vector]:
    """The update under either data set; they are nearly the same."""
    base, *both = bodies
    one, other = (clipped_update(base, body, CLIP_NORM) for body in both)
    assert np.linalg.norm(one - other) < 0.02 * np.linalg.norm(one)
    return one, other


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_a_data_set_that_differs_in_a_pixel_is_ruled_out_under_the_old_scheme(
    multiplier: float, bodies: tuple[Vector, Vector, Vector], updates: tuple[Vector, Vector]
) -> None:
    base, body, _ = bodies
    std = multiplier * CLIP_NORM
    released = [
        old_scheme.privatize(base, body, CLIP_NORM, std, Sparsifier(), None, seed=seed)[0] for seed in range(50)
    ]
    right, wrong = (np.concatenate([impossible(base, update, z, std, NEAR) for z in released]) for update in updates)
    assert min(right.size, wrong.size) > 200
    assert not right.any()
    assert wrong.mean() > 0.1


def test_so_much_noise_promises_that_nobody_can_tell() -> None:
    """Epsilon of what the test above tells apart without a doubt, for one release."""
    assert gaussian.epsilon(2 / 50, 1e-5) < 0.15
    assert gaussian.epsilon(2 / 10_000, 1e-5) < 1e-3


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_no_data_set_is_ruled_out_now(
    multiplier: float, bodies: tuple[Vector, Vector, Vector], updates: tuple[Vector, Vector]
) -> None:
    base, body, _ = bodies
    std = multiplier * CLIP_NORM
    released = [privatize(base, body, CLIP_NORM, std, Sparsifier(), None)[0] for _ in range(50)]
    for z in released:
        taken = steps(base, z, std)
        assert np.array_equal(taken, np.rint(taken)), "possible, and that without a look at the update"
    # The attack itself finds as many values strange under the right data set as under the wrong one.
    right, wrong = (np.concatenate([impossible(base, update, z, std, NEAR) for z in released]) for update in updates)
    assert min(right.size, wrong.size) > 200
    assert abs(right.mean() - wrong.mean()) < 0.25


def chances(taken: Pair, between: Pair) -> list[float]:
    """How unlikely the last digits of steps are, by Pearson's test, if they have to do with neither update.

    Args:
        taken: The steps of many releases, of a peer with the one data set and of one with the other.
        between: Where the one update and the other lie between two grid points, in eighths.
    """
    found = []
    for modulus, part in itertools.product((2, 3, 16, 64), between):
        cells = [np.bincount((part * modulus + numbers % modulus).ravel(), minlength=8 * modulus) for numbers in taken]
        counts = np.stack(cells).reshape(2, 8, modulus)
        for table, expected in (
            (counts[0], counts[0].sum(1, keepdims=True) / modulus),
            (counts[1], counts[1].sum(1, keepdims=True) / modulus),
            (counts, counts.sum(0) / 2),
        ):
            found.append(float(chi2.sf(((table - expected) ** 2 / expected).sum(), 8 * (modulus - 1))))
    return found


def placed(updates: tuple[Vector, Vector], unit: float) -> Pair:
    """Where updates lie between two grid points, in eighths."""
    one, other = (np.floor(np.mod(update / unit, 1) * 8).astype(np.int64) for update in updates)
    return one, other


@pytest.mark.slow
@pytest.mark.parametrize("std", [0.5, 50.0])
def test_the_last_digits_are_the_same_whatever_the_data(
    std: float, bodies: tuple[Vector, Vector, Vector], updates: tuple[Vector, Vector]
) -> None:
    base, *both = bodies
    one, other = (
        np.stack(
            [
                steps(base, privatize(base, body, CLIP_NORM, std, Sparsifier(), None)[0], std).astype(np.int64)
                for _ in range(300)
            ]
        )
        for body in both
    )
    found = chances((one, other), placed(updates, grid(std)))
    assert min(found) > 1e-7 / len(found)


def test_last_digits_that_depend_on_the_data_would_be_noticed(updates: tuple[Vector, Vector]) -> None:
    """Noise of one bit too few: an update's own steps show through in whether those released are even."""
    draw = np.random.default_rng(2)
    unit = grid(0.5)
    one, other = (
        np.rint(update / unit).astype(np.int64) + 2 * np.rint(draw.normal(0, 2000, (300, update.size))).astype(np.int64)
        for update in updates
    )
    assert min(chances((one, other), placed(updates, unit))) < 1e-100
