"""What errors prove of sampled steps: never more than is true, and half the noise is found."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from dpeer.privacy import Charge, accounting
from dpeer.privacy.audit import StepBound, bound_steps, planned_tests
from dpeer.privacy.tradeoff import statistic

pytestmark = pytest.mark.slow

CHARGE, DELTA = Charge(0.25, 1.0, 4), 1e-5


def runs(draw: np.random.Generator, count: int, strength: float = 1.0, rate: float = 0.25) -> np.ndarray:
    """What the adversary computes of runs without and with the record, shape (2, count)."""
    noise = strength * draw.normal(size=(2, count, CHARGE.steps))
    noise[1] += draw.random(noise[1].shape) < rate
    return statistic(noise, CHARGE).sum(axis=2)


def audited(values: np.ndarray, thresholds: Sequence[float]) -> StepBound:
    return bound_steps(values[0], values[1], thresholds, [CHARGE], DELTA)


def test_the_bound_is_below_the_claim_as_often_as_it_says_and_near_it_with_many_runs() -> None:
    draw, tests = np.random.default_rng(1), planned_tests([CHARGE], 300)
    found = [audited(runs(draw, 300), tests.thresholds) for _ in range(30)]
    assert np.mean([one.refuted for one in found]) <= 0.1
    claimed = accounting.total_epsilon([CHARGE], DELTA)
    assert all(one.refuted == (one.epsilon > claimed) == (one.strength < 1.0) for one in found)
    many = audited(runs(draw, 400_000), planned_tests([CHARGE], 400_000).thresholds)
    assert 1.0 < many.strength < 1.03
    assert 0.97 * claimed < many.epsilon <= claimed
    assert many.runs == 400_000


@pytest.mark.parametrize(("strength", "rate"), [(0.5, 0.25), (1.0, 0.8)])
def test_half_the_noise_and_a_higher_rate_are_noticed(strength: float, rate: float) -> None:
    draw, tests = np.random.default_rng(2), planned_tests([CHARGE], 1000)
    assert tests.margin > 0.0
    found = [audited(runs(draw, 1000, strength, rate), tests.thresholds) for _ in range(3)]
    assert all(one.refuted for one in found)
    assert min(one.epsilon for one in found) > accounting.total_epsilon([CHARGE], DELTA)
    assert rate > 0.25 or 0.45 < min(one.strength for one in found) < 0.7


def test_how_few_runs_are_too_few() -> None:
    margins = [planned_tests([CHARGE], count).margin for count in (30, 300, 3000)]
    assert margins == sorted(margins)
    assert margins[0] <= 0.0 < margins[2]


def test_nothing_is_proven_by_guessing() -> None:
    same = np.random.default_rng(3).normal(size=500)
    for without, within in ((same, same), (np.ones(10), np.zeros(10))):
        found = bound_steps(without, within, [0.0, 0.5], [CHARGE], DELTA)
        assert (found.epsilon, found.strength, found.refuted) == (0.0, math.inf, False)


def test_whoever_always_knows_refutes_what_was_not_charged() -> None:
    found = bound_steps(np.zeros(500), np.ones(500), [0.5], [], DELTA)
    assert found.refuted
    assert (found.false_positives, found.false_negatives) == (0.0, 0.0)
