"""Poisson sampling: every unit by itself, with the rate that is stated, from bits that nobody else has."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpeer.privacy import randomness
from dpeer.privacy.randomness import Keystream, Poisson

DRAWS, UNITS = 2000, 300


def drawn(rate: float) -> np.ndarray:
    """Who was in which draw, shape (draws, units)."""
    poisson, found = Poisson(UNITS, rate), np.zeros((DRAWS, UNITS), dtype=bool)
    for row in found:
        row[poisson.draw()] = True
    return found


@pytest.mark.parametrize("rate", [0.003, 0.05, 0.5, 0.9])
def test_units_come_with_their_rate_and_independently(rate: float) -> None:
    found = drawn(rate)
    error = math.sqrt(rate * (1 - rate))
    assert abs(found.mean() - rate) < 5 * error / math.sqrt(found.size)
    assert np.abs(found.mean(0) - rate).max() < 6 * error / math.sqrt(DRAWS) + 3 / DRAWS
    sizes = found.sum(1)
    assert sizes.var() == pytest.approx(UNITS * error**2, rel=0.25), "not of a fixed size"
    centered = (found - rate) / error
    pairs = centered.T @ centered / DRAWS
    assert np.abs(pairs[~np.eye(UNITS, dtype=bool)]).mean() < 1.2 * math.sqrt(2 / math.pi / DRAWS)
    after = (centered[1:] * centered[:-1]).mean()
    assert abs(after) < 5 / math.sqrt(found.size)


def test_the_rate_is_exact_to_64_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit is drawn where its 64 bits are below the rate, also beyond what is drawn at once."""
    monkeypatch.setattr(randomness.os, "urandom", lambda size: (9).to_bytes(size, "big"))
    units, rate = 70_001, 0.1
    words = Keystream().words(0, units)
    expected = np.flatnonzero([int(word) < Fraction(rate) * 2**64 for word in words])
    found = Poisson(units, rate).draw()
    assert np.array_equal(found, expected)
    assert found.dtype == np.int64
    assert np.array_equal(Poisson(units, rate).draw(), found), "the same under the same key"


def test_each_draw_has_a_key_of_its_own_which_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Keystream] = []

    class Watched(Keystream):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(randomness, "Keystream", Watched)
    poisson = Poisson(10, 0.5)
    poisson.draw()
    poisson.draw()
    assert len(made) == 2
    for stream in made:
        with pytest.raises(ValueError, match="one release only"):
            stream.words(0, 1)
