"""What a guarantee promises."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.client_level import Guarantee


def test_noise_and_sensitivity() -> None:
    neighbor = Guarantee(5.0, 0.2, 1e-5)
    assert neighbor.noise_std == pytest.approx(1.0)
    assert neighbor.sensitivity == pytest.approx(0.4)
    assert neighbor.mu(100) == pytest.approx(10 * 0.4 / 1.0)


@given(st.floats(0.1, 50.0), st.floats(0.01, 100.0))
def test_releases_are_the_last_within_the_budget(sigma: float, budget: float) -> None:
    guarantee = Guarantee(sigma, 1.0, 1e-5)
    count = guarantee.releases(budget)
    assert guarantee.epsilon(count) <= budget < guarantee.epsilon(count + 1)


def test_budgets_at_their_ends() -> None:
    guarantee = Guarantee(5.0, 1.0, 1e-5)
    assert guarantee.epsilon(0) == 0.0
    assert guarantee.releases(0.0) == 0
    assert Guarantee(1e12, 1.0, 1e-5).releases(1e6) == 10**15
    for wrong in (-1.0, math.inf, math.nan):
        with pytest.raises(ConfigurationError):
            guarantee.releases(wrong)
    with pytest.raises(ConfigurationError):
        guarantee.mu(-1)


def test_words() -> None:
    assert Guarantee(1.0, 1.0, 1e-5).words == "one peer's whole data set, against a neighbor, replace-one"
