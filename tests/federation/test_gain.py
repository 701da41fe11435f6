"""The paired bootstrap, held against scipy's and against all resamples; and what it lets dpeer say."""

import itertools

import numpy as np
import pytest
from scipy.stats import bootstrap

from dpeer.federation.gain import find_gain


def scipys(joined: np.ndarray, alone: np.ndarray) -> tuple[float, float]:
    found = bootstrap(
        (joined, alone), lambda a, b, axis: a.mean(axis) - b.mean(axis), paired=True, vectorized=True,
        n_resamples=20_000, method="percentile", random_state=np.random.default_rng(7),
    )  # fmt: skip
    return found.confidence_interval.low, found.confidence_interval.high


@pytest.mark.parametrize("count", [37, 400])
def test_the_interval_of_accuracies_is_scipys(count: int) -> None:
    rng = np.random.default_rng(count)
    alone = (rng.random(count) < 0.7).astype(float)
    joined = np.where(rng.random(count) < 0.8, alone, (rng.random(count) < 0.9).astype(float))
    found = find_gain(joined, alone, most_is_best=True)
    assert found.gain == pytest.approx(joined.mean() - alone.mean())
    assert found.differ == (joined != alone).sum()
    # Both draw at random, and means of right and wrong answers are steps of 1 / count.
    assert (found.low, found.high) == pytest.approx(scipys(joined, alone), abs=1.01 / count)


def test_the_interval_of_losses_is_scipys_with_the_sign_of_a_gain() -> None:
    rng = np.random.default_rng(3)
    alone = rng.gamma(2.0, size=250)
    joined = 0.9 * alone + 0.1 * rng.gamma(1.5, size=250)
    found = find_gain(joined, alone, most_is_best=False)
    low, high = scipys(joined, alone)
    assert found.gain == pytest.approx(alone.mean() - joined.mean())
    assert (found.low, found.high) == pytest.approx((-high, -low), abs=0.04 * (high - low))


def test_of_three_rows_it_is_that_of_all_resamples() -> None:
    joined, alone = [0.2, 0.5, 0.9], [0.1, 0.7, 0.4]
    differences = np.subtract(joined, alone)
    means = sorted(np.mean(drawn) for drawn in itertools.product(differences, repeat=3))
    # The lowest and the highest are 1 of 27 each, more than the 2.5 % that are cut off.
    found = find_gain(joined, alone, most_is_best=True)
    assert (found.low, found.high) == pytest.approx((means[0], means[-1]))


def test_the_same_rows_give_the_same_numbers() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(50), rng.random(50)
    assert find_gain(a, b, most_is_best=True) == find_gain(a, b, most_is_best=True)
    assert find_gain(a, b, most_is_best=True) != find_gain(a, b, most_is_best=True, seed=1)


def answers(count: int, better: int, worse: int) -> tuple[list[float], list[float]]:
    """Rows on which the first model alone is right, the second alone, and both are."""
    joined = [1.0] * better + [0.0] * worse + [1.0] * (count - better - worse)
    return joined, [0.0] * better + [1.0] * worse + [1.0] * (count - better - worse)


@pytest.mark.parametrize(
    ("count", "better", "worse", "verdict"),
    [
        (40, 12, 1, "helped"),
        (40, 1, 12, "alone"),
        (40, 3, 2, "unclear"),
        (40, 0, 0, "unclear"),
        (40, 4, 0, "unclear"),  # the bootstrap's interval leaves zero out; four heads in a row are one throw in eight
        (40, 6, 0, "helped"),
        (5, 5, 0, "unclear"),
    ],
)
def test_what_is_told(count: int, better: int, worse: int, verdict: str) -> None:
    found = find_gain(*answers(count, better, worse), most_is_best=True)
    assert (found.verdict, found.differ) == (verdict, better + worse)
    if verdict != "unclear":
        assert found.low > 0 or found.high < 0


def test_a_few_losses_tell_nothing_however_clear() -> None:
    assert find_gain([0.1] * 9, [2.0] * 9, most_is_best=False).verdict == "unclear"
    assert find_gain([0.1] * 10, [2.0] * 10, most_is_best=False).verdict == "helped"


@pytest.mark.slow
def test_many_rows_take_little() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(20_000), rng.random(20_000)
    found = find_gain(a, b, most_is_best=False)
    half = 1.96 * (a - b).std() / 20_000**0.5
    assert (found.low, found.high) == pytest.approx((found.gain - half, found.gain + half), abs=0.1 * half)


def test_other_rows_cannot_be_compared() -> None:
    for joined, alone in (([], []), ([1.0], [1.0, 0.0])):
        with pytest.raises(ValueError, match="rows cannot be compared"):
            find_gain(joined, alone, most_is_best=True)
