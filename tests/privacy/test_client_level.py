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
    zero = Guarantee(5.0, 0.2, 1e-5, adjacency="zero-out")
    assert zero.sensitivity == pytest.approx(0.2)
    assert zero.mu(100) == pytest.approx(2.0)
    aggregate = Guarantee(5.0, 0.2, 1e-5, "aggregate", "zero-out", 0.25)
    assert aggregate.noise_std == pytest.approx(0.25)
    assert aggregate.mu(100) == aggregate.mu(100, "aggregate") == pytest.approx(2.0)
    assert aggregate.mu(100, "neighbor") == pytest.approx(10 * 0.2 / 0.25)


def test_what_an_outsider_sees_follows_from_the_average_itself() -> None:
    # An average with these weights, noise s on each: it moves by w_i S under noise s ||w||.
    weights = [0.5, 0.3, 0.2]
    norm = math.sqrt(sum(w * w for w in weights))
    guarantee = Guarantee(3.0, 2.0, 1e-5, "aggregate", share=max(weights) / norm)
    worst = max(w * guarantee.sensitivity / (guarantee.noise_std * norm) for w in weights)
    assert guarantee.mu(7) == pytest.approx(math.sqrt(7) * worst)


@given(st.floats(0.1, 50.0), st.floats(0.01, 100.0), st.sampled_from(["replace", "zero-out"]), st.integers(1, 64))
def test_releases_are_the_last_within_the_budget(sigma: float, budget: float, adjacency: str, honest: int) -> None:
    for guarantee in (
        Guarantee(sigma, 1.0, 1e-5, "neighbor", adjacency),
        Guarantee(sigma, 1.0, 1e-5, "aggregate", adjacency, honest**-0.5),
    ):
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
    aggregate = Guarantee(1.0, 1.0, 1e-5, "aggregate", "zero-out", 0.25)
    assert aggregate.words == (
        "one peer's whole data set, against an outsider that sees only averages of at least 16 honest peers, zero-out"
    )
    assert "as among 2.5 of equal weight" in Guarantee(1.0, 1.0, 1e-5, "aggregate", share=math.sqrt(0.4)).words
