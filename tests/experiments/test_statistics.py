"""Intervals and smoothing, held against scipy and numpy."""

import math

import numpy as np
import pytest
from scipy import stats

from dpeer.experiments.statistics import WINDOW, first_reached, interval

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_the_interval_of_paired_differences_is_scipys(seeds: int) -> None:
    here, there = RNG.normal(0.8, 0.1, seeds), RNG.normal(0.7, 0.1, seeds)
    found = interval(list(here - there))
    assert found.half is not None
    low, high = stats.ttest_rel(here, there).confidence_interval(0.95)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high))
    differences = here - there
    expected = stats.t.interval(0.95, seeds - 1, differences.mean(), stats.sem(differences))
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx(expected)


def test_of_one_seed_there_is_no_interval_and_of_equal_ones_it_is_a_point() -> None:
    assert interval([0.25]) == (0.25, None)
    assert interval([0.25, 0.25, 0.25]) == (0.25, 0.0)


def test_where_training_left_no_accuracy_there_is_none_either() -> None:
    mean, half = interval([0.5, math.nan, 0.5])
    assert math.isnan(mean)
    assert half is None


@pytest.mark.parametrize("target", [0.05, 0.3, 0.5, 0.62, 0.9, 1.0])
def test_the_first_round_is_where_a_moving_average_is_at_the_target(target: float) -> None:
    values = np.clip(np.linspace(0, 0.8, 40) + RNG.normal(0, 0.2, 40), 0, 1)
    rounds = np.arange(2, 82, 2) - 1  # every other round was evaluated
    smooth = np.convolve(values, np.ones(WINDOW) / WINDOW, "valid")
    reached = np.flatnonzero(smooth >= target)
    expected = int(rounds[reached[0] + WINDOW - 1]) + 1 if len(reached) else None
    assert first_reached(list(zip(rounds.tolist(), values.tolist(), strict=True)), target) == expected


def test_one_lucky_round_does_not_reach_it() -> None:
    curve = [(number, 1.0 if number == 4 else 0.5) for number in range(9)]
    assert first_reached(curve, 0.9) is None
    assert first_reached(curve[: WINDOW - 1], 0.1) is None
    assert first_reached([(number, 0.75) for number in range(9)], 0.75) == WINDOW
