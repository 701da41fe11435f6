"""What can be read off noise that is known: sound noise passes, each defect is noticed."""

import math
from typing import Any

import numpy as np
import pytest

from dpeer.privacy import Guarantee, checks, residuals

MANY, WIDE = 3000, 20


@pytest.fixture
def noise() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(MANY, WIDE))


NOISE = (
    residuals.never_twice, residuals.enough, residuals.lengths, residuals.normal, residuals.unrelated,
    residuals.forgotten, lambda noise: residuals.by_round(noise, 5),
)  # fmt: skip


def failed(noise: np.ndarray) -> set[str]:
    return {found.name for found in (check(noise) for check in NOISE) if not found.held}


@pytest.mark.parametrize("seed", range(20))
def test_sound_noise_passes_everything(seed: int) -> None:
    assert failed(np.random.default_rng(seed).normal(size=(MANY, WIDE))) == set()


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.8])
def test_one_coordinate_with_less_noise_is_noticed(noise: np.ndarray, factor: float) -> None:
    noise[:, 7] *= factor
    found = residuals.enough(noise)
    assert not found.held
    assert f"{factor:.1f}" in found.said


def test_a_little_less_noise_everywhere_is_noticed(noise: np.ndarray) -> None:
    assert not residuals.enough(0.97 * noise).held


def test_more_noise_is_not_too_little(noise: np.ndarray) -> None:
    assert residuals.enough(1.3 * noise).held


def test_noise_of_one_coordinate_that_comes_from_another_is_noticed(noise: np.ndarray) -> None:
    noise[:, 3] = 0.9 * noise[:, 11] + math.sqrt(1 - 0.81) * noise[:, 3]
    assert "noise across coordinates" in failed(noise)


def test_coordinates_that_are_strong_together_are_noticed(noise: np.ndarray) -> None:
    noise[:, 3] = np.abs(noise[:, 11]) * np.sign(noise[:, 3])
    assert failed(noise) == {"noise across coordinates"}


@pytest.mark.parametrize("lag", [1, 2, 3, 700])
@pytest.mark.parametrize("shift", [0, 1])
def test_noise_that_comes_from_an_earlier_release_is_noticed(noise: np.ndarray, lag: int, shift: int) -> None:
    for row in range(lag, MANY, 2):
        noise[row] = -0.5 * np.roll(noise[row - lag], shift) + math.sqrt(1 - 0.25) * noise[row]
    assert "noise across releases" in failed(noise)


def test_noise_that_comes_again_much_later_is_noticed(noise: np.ndarray) -> None:
    noise[2000] = noise[5]
    assert failed(noise) == {"fresh noise"}


def test_releases_of_uneven_noise_are_noticed(noise: np.ndarray) -> None:
    noise[::2] *= 0.5
    noise[1::2] *= math.sqrt(1.75)
    assert {"noise by release", "normal noise"} <= failed(noise)
    assert "noise by coordinate" not in failed(noise)


def test_a_round_with_less_noise_is_noticed(noise: np.ndarray) -> None:
    noise[::5] *= 0.8
    assert "noise by round" in failed(noise)


@pytest.mark.parametrize(
    "other",
    [
        lambda draw: draw.laplace(scale=math.sqrt(0.5), size=(MANY, WIDE)),
        lambda draw: draw.uniform(-math.sqrt(3), math.sqrt(3), (MANY, WIDE)),
        lambda draw: draw.choice([-1.0, 1.0], (MANY, WIDE)),
        lambda draw: np.clip(draw.normal(size=(MANY, WIDE)), -3, 3),
        lambda draw: np.where(draw.random((MANY, WIDE)) < 0.05, 0.0, draw.normal(0, 1 / math.sqrt(0.95), (MANY, WIDE))),
    ],
    ids=["Laplace", "uniform", "two values", "no tails", "none now and then"],
)
def test_noise_that_is_not_normal_is_noticed(other: Any) -> None:
    noise = other(np.random.default_rng(3))
    assert residuals.enough(noise).held, "it is as strong as it should be"
    assert "normal noise" in failed(noise)


def test_values_beside_the_grid_are_noticed() -> None:
    values = np.arange(-50.0, 50.0) / 8
    assert checks.on_grid(values, 0.125).held
    assert not checks.on_grid(values, 0.25).held
    assert "50 of 100" in checks.on_grid(values, 0.25).said


def test_digits_that_are_not_even_are_noticed() -> None:
    draw = np.random.default_rng(4)
    steps = np.rint(draw.normal(0, 4096, (2000, 10)))
    assert checks.even_digits([steps, steps[::-1]]).held
    uneven = steps.copy()
    uneven[::5] -= uneven[::5] % 2
    assert not checks.even_digits([steps, uneven]).held


def test_one_coordinate_whose_last_digit_tells_the_data_set_is_noticed() -> None:
    draw = np.random.default_rng(4)
    first, second = np.rint(draw.normal(0, 4096, (2, 2000, 20)))
    first[:, 7] -= first[:, 7] % 2
    second[:, 7] += 1 - second[:, 7] % 2
    assert not checks.even_digits([first, second]).held


def test_without_noise_every_length_beyond_the_clip_norm_is_noticed() -> None:
    moved = np.array([[0.0, 0.0], [0.3, 0.4], [0.0, -0.5]])
    assert checks.clipped_exactly(moved, 0.5).held
    for wrong in ([0.5, 0.02], [np.nan, 0.0], [np.inf, 0.0]):
        assert not checks.clipped_exactly(np.vstack([moved, wrong]), 0.5).held


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
