"""What can be read off noise that is known: sound noise passes, each defect is noticed."""

import math

import numpy as np
import pytest

from dpeer.privacy import Guarantee, checks

MANY, WIDE = 3000, 20


@pytest.fixture
def noise() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(MANY, WIDE))


def test_sound_noise_passes_everything(noise: np.ndarray) -> None:
    for check in (checks.never_twice, checks.enough, checks.unrelated, checks.forgotten):
        found = check(noise)
        assert found.held, found


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.8])
def test_one_coordinate_with_less_noise_is_noticed(noise: np.ndarray, factor: float) -> None:
    noise[:, 7] *= factor
    found = checks.enough(noise)
    assert not found.held
    assert f"{factor:.1f}" in found.said


def test_more_noise_is_no_defect(noise: np.ndarray) -> None:
    assert checks.enough(1.3 * noise).held


def test_noise_of_one_coordinate_that_comes_from_another_is_noticed(noise: np.ndarray) -> None:
    noise[:, 3] = 0.9 * noise[:, 11] + math.sqrt(1 - 0.81) * noise[:, 3]
    assert not checks.unrelated(noise).held
    assert checks.enough(noise).held


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_noise_that_comes_from_an_earlier_release_is_noticed(noise: np.ndarray, lag: int) -> None:
    for row in range(lag, MANY):
        noise[row] = 0.3 * noise[row - lag] + math.sqrt(1 - 0.09) * noise[row]
    assert not checks.forgotten(noise).held


def test_noise_that_comes_again_much_later_is_noticed(noise: np.ndarray) -> None:
    noise[2000] = noise[5]
    assert not checks.never_twice(noise).held
    assert checks.forgotten(noise).held


def test_values_beside_the_grid_are_noticed() -> None:
    values = np.arange(-50.0, 50.0) / 8
    assert checks.on_grid(values, 0.125).held
    assert not checks.on_grid(values, 0.25).held
    assert "50 of 100" in checks.on_grid(values, 0.25).said


def test_digits_that_are_not_even_are_noticed() -> None:
    draw = np.random.default_rng(4)
    steps = np.rint(draw.normal(0, 4096, 20_000))
    assert checks.even_digits(steps).held
    steps[::5] -= steps[::5] % 2
    assert not checks.even_digits(steps).held


def test_updates_longer_than_the_clip_norm_are_noticed() -> None:
    draw = np.random.default_rng(6)
    assert checks.clipped("long", draw.normal(0.5, 4.0, 5000), 0.5, 4.0).held
    assert checks.clipped("short", draw.normal(0.1, 4.0, 5000), 0.5, 4.0).held
    assert not checks.clipped("long", draw.normal(1.0, 4.0, 5000), 0.5, 4.0).held


def test_a_base_that_is_not_the_public_one_is_noticed() -> None:
    assert checks.from_released(np.zeros((3, 4))).held
    assert not checks.from_released(np.array([0.0, 1e-9])).held


def test_a_ledger_that_says_less_is_noticed() -> None:
    guarantee = Guarantee(4.0, 1.0, 1e-5)
    cost = guarantee.epsilon(8)
    assert checks.charged(guarantee, 8, [8, 8], [cost, cost]).held
    assert not checks.charged(guarantee, 8, [8, 7], [cost, cost]).held
    assert not checks.charged(guarantee, 8, [8, 8], [cost, guarantee.epsilon(7)]).held
