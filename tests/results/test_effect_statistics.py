"""Intervals of one peer's gain and of all peers' together, held against scipy's, resamples and the truth."""

import numpy as np
import pytest
from scipy.stats import bootstrap

from dpeer.results.effect import Effect, find_gain, pooled, pooled_text


def answers(count: int, better: int, worse: int) -> tuple[list[float], list[float]]:
    """Rows on which the first model alone is right, the second alone, and both are."""
    joined = [1.0] * better + [0.0] * worse + [1.0] * (count - better - worse)
    return joined, [0.0] * better + [1.0] * worse + [1.0] * (count - better - worse)


@pytest.mark.parametrize(("count", "better", "worse"), [(80, 0, 0), (37, 3, 9), (12, 12, 0)])
def test_the_interval_of_accuracies_is_the_usual_one_with_half_a_row_more_in_each_cell(
    count: int, better: int, worse: int
) -> None:
    found = find_gain(*answers(count, better, worse), most_is_best=True)
    assert (found.gain, found.differ) == (pytest.approx((better - worse) / count), better + worse)
    # A row of each kind counts half more: +1 and -1 where one model alone is right, 0 twice where both agree.
    values, weights = [1.0, -1.0, 0.0], [better + 0.5, worse + 0.5, count - better - worse + 1]
    mean = np.average(values, weights=weights)
    error = (np.average((np.array(values) - mean) ** 2, weights=weights) / sum(weights)) ** 0.5
    assert (found.low, found.high) == pytest.approx((mean - 1.959964 * error, min(1.0, mean + 1.959964 * error)))


def test_the_interval_of_losses_is_scipys_with_the_sign_of_a_gain() -> None:
    rng = np.random.default_rng(3)
    alone = rng.gamma(2.0, size=250)
    joined = 0.9 * alone + 0.1 * rng.gamma(1.5, size=250)
    found = find_gain(joined, alone, most_is_best=False)
    assert found == find_gain(joined, alone, most_is_best=False), "to the bit"
    low, high = bootstrap(
        (joined, alone), lambda a, b, axis: a.mean(axis) - b.mean(axis), paired=True, vectorized=True,
        n_resamples=9_999, method="percentile", random_state=np.random.default_rng(7),
    ).confidence_interval  # fmt: skip
    assert found.gain == pytest.approx(alone.mean() - joined.mean())
    assert (found.low, found.high) == pytest.approx((-high, -low), abs=0.04 * (high - low))


def test_a_verdict_takes_ten_rows_the_interval_and_mcnemars_test() -> None:
    for count, better, worse, verdict in (
        (40, 12, 1, "improved"), (40, 1, 12, "worse"), (40, 3, 2, "inconclusive"), (40, 0, 0, "inconclusive"),
        (40, 4, 0, "inconclusive"),  # four heads in a row are one throw in eight
        (40, 6, 0, "improved"), (5, 5, 0, "inconclusive"),
    ):  # fmt: skip
        found = find_gain(*answers(count, better, worse), most_is_best=True)
        assert (found.verdict, found.differ) == (verdict, better + worse)
        assert verdict == "inconclusive" or found.low > 0 or found.high < 0
    assert find_gain([0.1] * 9, [2.0] * 9, most_is_best=False).verdict == "inconclusive"
    assert find_gain([0.1] * 10, [2.0] * 10, most_is_best=False).verdict == "improved"


def test_losses_that_are_equal_are_not_taken_for_answers() -> None:
    """A target that is constant gives equal losses; answers would have an interval of half a row in each cell."""
    same = [0.25] * 30
    found = find_gain(same, same, most_is_best=False)
    assert (found.gain, found.low, found.high, found.verdict) == (0.0, 0.0, 0.0, "inconclusive")
    generator = np.random.default_rng(2)
    losses = [generator.gamma(2.0, 1e-3, 40) for _ in range(3)]
    lower = peers([*(one - 2e-4 for one in losses), np.array(same)], [*losses, np.array(same)], "test_loss")
    assert pooled_text(lower).startswith("4 peers together: improved over local only; mean gain +0.00015 of loss")


def peers(joined: list[np.ndarray], alone: list[np.ndarray], measure: str = "accuracy") -> list[Effect]:
    best = measure == "accuracy"
    return [
        Effect(measure=measure, on="test", rows=len(one),
              **vars(find_gain(one.tolist(), other.tolist(), most_is_best=best)))
        for one, other in zip(joined, alone, strict=True)
    ]  # fmt: skip


def right(generator: np.random.Generator, share: float, sizes: list[int]) -> list[np.ndarray]:
    return [(generator.random(size) < share).astype(float) for size in sizes]


def test_many_peers_of_few_rows_have_a_verdict_that_none_has_alone() -> None:
    alone = [np.array([1.0] * 24 + [0.0] * 6) for _ in range(8)]
    joined = [np.array([1.0] * 27 + [0.0] * 3) for _ in range(8)]
    found = peers(joined, alone)
    assert {one.verdict for one in found} == {"inconclusive"}
    one = pooled(found)
    assert (one.verdict, one.rows, one.differ, one.gain) == ("improved", 240, 24, pytest.approx(0.1))
    assert pooled_text(found).startswith("8 peers together: improved over local only; mean gain +0.1000 (95 % interval")
    assert pooled_text(peers(alone, joined)).startswith("8 peers together: worse than local only; mean gain -0.1000")
    generator = np.random.default_rng(2)
    alike = peers(right(generator, 0.7, [20] * 4), right(generator, 0.72, [20] * 4))
    assert pooled_text(alike).startswith("4 peers together: inconclusive")
    losses = [generator.gamma(2.0, 1.0, 12) for _ in range(6)]
    lower = peers([part - 0.2 for part in losses], losses, "test_loss")
    assert pooled_text(lower).startswith("6 peers together: improved over local only; mean gain +0.2000 of loss")


def test_the_interval_of_all_peers_is_that_of_resampling_within_every_peer() -> None:
    generator = np.random.default_rng(0)
    sizes = [40, 60, 90, 150]
    joined, alone = right(generator, 0.8, sizes), right(generator, 0.7, sizes)
    one = pooled(peers(joined, alone))
    differences = [a - b for a, b in zip(joined, alone, strict=True)]
    means = [np.mean([generator.choice(part, len(part)).mean() for part in differences]) for _ in range(2000)]
    assert (one.low, one.high) == pytest.approx(np.percentile(means, (2.5, 97.5)), abs=0.015)


def test_a_verdict_of_all_is_of_all_peers_or_of_none_and_says_what_speaks_against_it() -> None:
    """The gain of those that happened to be compared is not that of all; an interval is not the verdict."""
    alone, joined = [np.array([0.0] * 30)] * 3, [np.array([1.0] * 9 + [0.0] * 21)] * 3
    found = peers(joined, alone)
    assert pooled_text(found).startswith("3 peers together: improved over local only; mean gain")
    assert pooled([*found, None]) is None
    assert pooled_text([*found, None]) == "no verdict of all together: 3 of 4 peers are compared"
    assert pooled_text([None, None]) == ""
    alone, joined = (
        [np.array([0.0] * 14 + [1.0] * 6)] * 3,
        [np.array([1.0] * 5 + [0.0] * 9 + [1.0] * 4 + [0.0] * 2)] * 3,
    )
    text = pooled_text(peers(joined, alone))
    assert text.startswith(
        "3 peers together: probably improved over local only: the whole interval lies above zero, but"
    )
    assert "McNemar's test does not confirm it: 15 rows are right only federated, 6 only with local only;" in text


@pytest.mark.parametrize("rows", [([1.0], [1.0, 0.0]), ([], [])])
def test_the_rows_are_the_same_ones_and_some(rows: tuple[list[float], list[float]]) -> None:
    with pytest.raises(ValueError, match="rows cannot be compared"):
        find_gain(*rows, most_is_best=True)
