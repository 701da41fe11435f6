"""How rarely a record can be told after sampled steps: closed forms, simulation and dp-accounting say the same."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from dpeer.privacy import Charge, accounting
from dpeer.privacy.tradeoff import Tradeoff, statistic

SOME = np.array([1e-4, 0.01, 0.1, 0.3, 0.7])


@pytest.mark.parametrize(("sigma", "steps"), [(4.0, 9), (1.0, 1), (2.0, 30)])
def test_steps_of_all_records_are_gaussian_privacy(sigma: float, steps: int) -> None:
    mu = math.sqrt(steps) / sigma
    assert Tradeoff([Charge(1.0, sigma, steps)]).least_missed(SOME) == pytest.approx(
        norm.cdf(norm.isf(SOME) - mu), abs=1e-5
    )


def test_one_sampled_step_is_a_mixture() -> None:
    """One step is told by x alone: what is above an edge is taken for the record."""
    q, sigma = 0.3, 0.8
    edges = sigma * norm.isf(SOME)
    expected = (1 - q) * (1 - SOME) + q * norm.cdf((edges - 1) / sigma)
    assert Tradeoff([Charge(q, sigma, 1)]).least_missed(SOME) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "charges",
    [
        [Charge(0.1, 1.0, 8)], [Charge(0.25, 0.7, 4), Charge(0.5, 2.0, 3)], [Charge(0.01, 0.5, 300)],
        [Charge(0.05, 1.0, 300)],
    ],
)  # fmt: skip
def test_its_delta_at_the_epsilon_of_dp_accounting_is_the_same(charges: list[Charge]) -> None:
    delta = 1e-4
    epsilon = accounting.total_epsilon(charges, delta)
    found = Tradeoff(charges)
    wrong, missed = found.false_positives, found.false_negatives
    both = (1 - missed - math.exp(epsilon) * wrong).max(), (1 - wrong - math.exp(epsilon) * missed).max()
    assert max(both) == pytest.approx(delta, rel=5e-3)
    assert max(both) <= delta, "dp-accounting rounds up"


@pytest.mark.parametrize("strength", [0.5, 1.0, 1.5])
def test_noise_of_another_strength_than_the_test_believes(strength: float) -> None:
    charge, draw, runs = Charge(0.2, 0.9, 5), np.random.default_rng(0), 100_000
    noise = strength * 0.9 * draw.normal(size=(2, runs, 5))
    noise[1] += draw.random((runs, 5)) < 0.2
    without, within = statistic(noise, charge).sum(axis=2)
    found = Tradeoff([charge], strength)
    for place in np.searchsorted(found.thresholds, np.quantile(without, [0.05, 0.5, 0.95])):
        edge = found.thresholds[place]
        assert found.false_positives[place] == pytest.approx((without > edge).mean(), abs=0.01)
        assert found.false_negatives[place] == pytest.approx((within <= edge).mean(), abs=0.01)


def test_the_statistic_is_the_logarithm_of_the_ratio_of_densities() -> None:
    x = np.linspace(-4, 5, 7)
    absent, drawn = norm.pdf(x, 0, 0.6), norm.pdf(x, 1, 0.6)
    assert statistic(x, Charge(0.3, 0.6, 1)) == pytest.approx(np.log((0.7 * absent + 0.3 * drawn) / absent))
    assert statistic(x, Charge(1.0, 0.6, 1)) == pytest.approx(np.log(drawn / absent))


def test_without_steps_all_is_guessing() -> None:
    assert Tradeoff([Charge(0.5, 1.0, 0)]).least_missed(SOME) == pytest.approx(1 - SOME)
