"""What a guarantee promises."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpeer.exceptions import ConfigurationError
from dpeer.privacy.client_level import Guarantee, uniform_share
from dpeer.privacy.soundness import check_delta, default_delta


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
        Guarantee(sigma, 1.0, 1e-5, "aggregate", adjacency, uniform_share(honest)),
    ):
        count = guarantee.releases(budget)
        assert guarantee.epsilon(count) <= budget < guarantee.epsilon(count + 1)


def test_budgets_at_their_ends() -> None:
    guarantee = Guarantee(5.0, 1.0, 1e-5)
    assert guarantee.epsilon(0) == 0.0
    assert guarantee.releases(0.0) == 0
    assert Guarantee(1e12, 1.0, 1e-5).releases(1e6) == 10**15
    for wrong in (-1.0, math.inf, math.nan):
        with pytest.raises(ConfigurationError, match="epsilon"):
            guarantee.releases(wrong)
    with pytest.raises(ConfigurationError, match="releases -1"):
        guarantee.mu(-1)


def test_words() -> None:
    assert Guarantee(1.0, 1.0, 1e-5).words == "one peer's whole data set, against a neighbor, replace-one"
    aggregate = Guarantee(1.0, 1.0, 1e-5, "aggregate", "zero-out", uniform_share(16))
    assert aggregate.words == (
        "one peer's whole data set, against an outsider that sees only averages of at least 16 honest peers, zero-out"
    )
    assert aggregate.words_against("neighbor") == "one peer's whole data set, against a neighbor, zero-out"
    assert "as among 2.5 of equal weight" in Guarantee(1.0, 1.0, 1e-5, "aggregate", share=math.sqrt(0.4)).words


@given(st.integers(1, 10_000))
def test_words_know_the_number_again(honest: int) -> None:
    words = Guarantee(1.0, 1.0, 1e-5, "aggregate", share=uniform_share(honest)).words
    assert f"at least {honest} honest peers" in words


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"noise_multiplier": 0.0}, "noise multiplier 0"),
        ({"noise_multiplier": math.nan}, "noise multiplier nan"),
        ({"clip_norm": -1.0}, "clip norm -1"),
        ({"clip_norm": math.inf}, "clip norm inf"),
        ({"delta": 0.0}, "delta 0"),
        ({"delta": 1.0}, "delta 1"),
        ({"adversary": "server"}, "adversary 'server': choose neighbor or aggregate"),
        ({"adjacency": "add"}, "adjacency 'add': choose replace or zero-out"),
        ({"adversary": "aggregate", "share": 0.0}, "share 0"),
        ({"adversary": "aggregate", "share": 1.5}, "share 1.5"),
        ({"share": 0.5}, "share 0.5: a neighbor sees each message"),
    ],
)
def test_values_out_of_range(values: dict[str, object], message: str) -> None:
    arguments = {"noise_multiplier": 1.0, "clip_norm": 1.0, "delta": 1e-5, **values}
    with pytest.raises(ConfigurationError, match=message):
        Guarantee(**arguments)


def test_delta_by_the_number_of_peers() -> None:
    assert default_delta(8) == 1e-5
    assert default_delta(10_000) == 1e-5
    assert default_delta(100_000) == pytest.approx(1e-6)
    assert check_delta(1e-5, 8) is None
    assert check_delta(0.1 / 8, 8) is None
    warning = check_delta(0.02, 8)
    assert warning is not None
    assert "delta 0.02" in warning
    assert "0.0125" in warning
    for delta in (1 / 8, 0.2):
        with pytest.raises(ConfigurationError, match=r"choose at most 0\.0125"):
            check_delta(delta, 8)
    for units in (0, -3):
        with pytest.raises(ConfigurationError, match="size"):
            default_delta(units)
    with pytest.raises(ConfigurationError, match="min-honest 0"):
        uniform_share(0)
