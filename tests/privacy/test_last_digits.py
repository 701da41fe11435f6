"""The last digits of a release tell two data sets apart no better than guessing, at any noise."""

import itertools
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from dpeer.privacy import Sparsifier, Vector, privatize
from dpeer.privacy.noise import grid

Pair: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]

SIZE, RELEASES = 7840, 300
EIGHTHS = 8


@pytest.fixture(scope="module")
def updates() -> Pair:
    """Updates of length 1 that differ by a hundredth."""
    draw = np.random.default_rng(1)
    one, apart = draw.normal(0, SIZE**-0.5, (2, SIZE))
    return one.astype(np.float32), (one + 0.01 * apart).astype(np.float32)


def chances(steps: Pair, between: Pair) -> list[float]:
    """Pearson's test of the last digits, by modulus, update and data set.

    Args:
        steps: The steps of many releases under either data set, shape (releases, coordinates).
        between: The place of either update between two grid points, in eighths.
    """
    found = []
    for modulus, part in itertools.product((2, 3, 16, 64), between):
        cells = [np.bincount((part * modulus + one % modulus).ravel(), minlength=EIGHTHS * modulus) for one in steps]
        counts = np.stack(cells).reshape(2, EIGHTHS, modulus)
        for table, expected in (
            (counts[0], counts[0].sum(1, keepdims=True) / modulus),
            (counts[1], counts[1].sum(1, keepdims=True) / modulus),
            (counts, counts.sum(0) / 2),
        ):
            statistic = float(((table - expected) ** 2 / expected).sum())
            found.append(float(chi2.sf(statistic, EIGHTHS * (modulus - 1))))
    return found


def places(updates: tuple[Vector, Vector], unit: float) -> Pair:
    one, other = (np.floor(np.mod(update / unit, 1) * EIGHTHS).astype(np.int64) for update in updates)
    return one, other


@pytest.mark.slow
@pytest.mark.parametrize("std", [0.5, pytest.param(50.0, marks=pytest.mark.long)])
def test_the_last_digits_are_the_same_whatever_the_data(std: float, updates: tuple[Vector, Vector]) -> None:
    base, unit = np.zeros(SIZE, dtype=np.float32), grid(std)
    one, other = (
        np.stack([privatize(base, body, 2.0, std, Sparsifier(), None)[0] / unit for _ in range(RELEASES)])
        for body in updates
    )
    assert np.array_equal(one, np.rint(one)), "any whole number of steps is possible, and nothing else"
    found = chances((one.astype(np.int64), other.astype(np.int64)), places(updates, unit))
    assert min(found) > 1e-7 / len(found)


def test_noise_of_one_bit_too_few_shows_the_update() -> None:
    draw, unit = np.random.default_rng(2), grid(0.5)
    bodies = draw.normal(0, 0.01, (2, SIZE))
    one, other = (
        np.rint(body / unit).astype(np.int64) + 2 * np.rint(draw.normal(0, 2000, (RELEASES, SIZE))).astype(np.int64)
        for body in bodies
    )
    assert min(chances((one, other), places(tuple(bodies), unit))) < 1e-100
