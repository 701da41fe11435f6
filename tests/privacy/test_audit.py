"""What errors prove about mu."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpeer.privacy.audit import bound_mu


@pytest.mark.parametrize("mu", [0.5, 1.5, 3.0])
def test_the_bound_is_below_mu_as_often_as_it_says_and_near_it_with_many_runs(mu):
    draw = np.random.default_rng(5)
    bounds = [bound_mu(draw.normal(0, 1, 300), draw.normal(mu, 1, 300), mu / 2).mu for _ in range(200)]
    assert np.mean(np.array(bounds) <= mu) >= 0.95
    many = bound_mu(draw.normal(0, 1, 400_000), draw.normal(mu, 1, 400_000), mu / 2)
    assert mu - 0.03 < many.mu <= mu
    assert many.false_positives == pytest.approx(norm.sf(mu / 2), abs=0.003)
    assert many.runs == 400_000


def test_half_the_noise_is_noticed():
    draw = np.random.default_rng(6)
    found = [bound_mu(draw.normal(0, 0.5, 300), draw.normal(1.5, 0.5, 300), 0.75).mu for _ in range(100)]
    assert min(found) > 1.5


def test_the_rates_are_bounded_as_clopper_and_pearson_do():
    # 3 and 5 errors in 40: the largest rates with which so few are not rarer than 2.5 %.
    first, second = np.r_[np.ones(3), np.zeros(37)], np.r_[np.zeros(5), np.ones(35)]
    found = bound_mu(first, second, 0.5)
    shares = np.linspace(0, 1, 200_001)
    rates = [shares[np.argmax(binom.cdf(k, 40, shares) <= 0.025)] for k in (3, 5)]
    assert found.mu == pytest.approx(norm.isf(rates[0]) - norm.ppf(rates[1]), abs=1e-4)


def test_nothing_is_proven_by_guessing():
    alternating = np.arange(300) % 2
    assert bound_mu(alternating, alternating, 0.5).mu == 0
    assert bound_mu(np.ones(10), np.zeros(10), 0.5).mu == 0, "always wrong"
