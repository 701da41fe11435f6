"""The closed form of Gaussian differential privacy."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from dpeer.privacy.accounting import gaussian_epsilon, log_delta

MU = st.floats(1e-3, 1e4)
DELTA = st.floats(-60.0, -0.3).map(lambda power: 10.0**power)


def delta(mu: float, epsilon: float) -> float:
    return math.exp(log_delta(epsilon / mu - mu / 2.0, mu))


def slowly(mu: float, epsilon: float) -> Any:
    """Delta as the formula is written, with 400 digits where a double has 16."""
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)

        def phi(x: Any) -> Any:
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        return phi(-e / m + m / 2) - mpmath.exp(e) * phi(-e / m - m / 2)


@pytest.mark.parametrize("m", [1e-3, 0.3, 1.0, 2.0, 8.0, 40.0, 300.0])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.4, 1.0, 1.3, 3.0])
def test_delta_is_the_formula_in_many_digits(m: float, share: float) -> None:
    e = share * (m * m / 2.0 + 4.0 * m)
    assert delta(m, e) == pytest.approx(float(slowly(m, e)), rel=1e-9, abs=0.0)


def test_delta_is_what_the_best_test_between_two_normals_gains() -> None:
    # By integrating, without the formula: the positive part of p - exp(epsilon) q.
    m, e = 1.3, 0.7
    grid = np.linspace(-12.0, 14.0, 400_001)
    gained = np.maximum(stats.norm.pdf(grid, m) - math.exp(e) * stats.norm.pdf(grid), 0.0)
    assert delta(m, e) == pytest.approx(np.trapezoid(gained, grid), rel=1e-7)


@given(MU, DELTA)
@example(1e4, 1e-60)
@example(1e-3, 1e-12)
def test_epsilon_inverts_delta(m: float, d: float) -> None:
    e = gaussian_epsilon(m, d)
    if e == 0.0:
        assert delta(m, 0.0) <= d * (1 + 1e-12)
    else:
        # Near x = epsilon / mu - mu / 2 delta falls by e^-x for each: a relative error of x comes back multiplied.
        x = abs(e / m - m / 2.0)
        assert math.log(delta(m, e)) == pytest.approx(math.log(d), abs=1e-11 * (1.0 + x + m) ** 2)


def test_the_ends() -> None:
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf
    # Told apart with probability below delta at all: no epsilon is needed.
    assert gaussian_epsilon(1e-6, 1e-5) == 0.0


def test_large_mu_and_tiny_delta_stay_finite_and_right() -> None:
    for m, d in ((1e6, 1e-300), (1e8, 1e-5), (1e3, 1e-100)):
        # exp(epsilon) is beyond a double here; the term with it only lowers epsilon, by less than 1 + a / mu of mu.
        above = m * m / 2.0 - m * stats.norm.ppf(d)
        assert above - 2.0 <= gaussian_epsilon(m, d) * (1.0 + 1e-15) <= above * (1.0 + 2e-15)
