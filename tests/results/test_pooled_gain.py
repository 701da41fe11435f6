"""What can be told of all peers together, from what each of them knows of itself."""

import numpy as np
import pytest
from scipy.stats import binomtest

from dpeer.results.effect import Effect
from dpeer.results.effect_statistics import find_gain, pooled, pooled_text, sign_test


def peers(joined: list[np.ndarray], alone: list[np.ndarray], measure: str = "accuracy") -> list[Effect]:
    best = measure == "accuracy"
    return [
        Effect(measure=measure, on="test", algorithm="local", rows=len(one),
              **vars(find_gain(one.tolist(), other.tolist(), most_is_best=best)))
        for one, other in zip(joined, alone, strict=True)
    ]  # fmt: skip


def right(generator: np.random.Generator, share: float, sizes: list[int]) -> list[np.ndarray]:
    return [(generator.random(size) < share).astype(float) for size in sizes]


def test_many_peers_of_few_rows_tell_what_none_tells_alone() -> None:
    alone = [np.array([1.0] * 24 + [0.0] * 6) for _ in range(8)]
    joined = [np.array([1.0] * 27 + [0.0] * 3) for _ in range(8)]
    found = peers(joined, alone)
    assert {one.verdict for one in found} == {"inconclusive"}
    one = pooled(found)
    assert one is not None
    assert (one.verdict, one.rows, one.differ) == ("improved", 240, 24)
    assert one.gain == pytest.approx(0.1)
    assert pooled_text(found).startswith("8 peers together: improved, mean gain +0.1000 (95 % interval +0.0")
    turned = pooled(peers(alone, joined))
    assert turned is not None
    assert turned.verdict == "worse"
    assert "worse" in pooled_text(peers(alone, joined))


def test_the_interval_is_that_of_resampling_within_every_peer() -> None:
    generator = np.random.default_rng(0)
    sizes = [40, 60, 90, 150]
    joined, alone = right(generator, 0.8, sizes), right(generator, 0.7, sizes)
    one = pooled(peers(joined, alone))
    differences = [a - b for a, b in zip(joined, alone, strict=True)]
    means = [np.mean([generator.choice(part, len(part)).mean() for part in differences]) for _ in range(4000)]
    assert one is not None
    assert (one.low, one.high) == pytest.approx(np.percentile(means, (2.5, 97.5)), abs=0.012)


def test_of_peers_with_as_many_rows_it_is_that_of_all_rows_in_one() -> None:
    generator = np.random.default_rng(3)
    joined, alone = right(generator, 0.8, [30] * 6), right(generator, 0.8, [30] * 6)
    one = pooled(peers([part[:30] for part in joined], alone))
    (all_rows,) = peers([np.concatenate(joined)], [np.concatenate(alone)])
    assert one is not None
    # Not to the bit: within a peer the differences' mean is taken away, here that of all.
    assert (one.low, one.high) == pytest.approx((all_rows.low, all_rows.high), abs=0.004)


def test_of_losses_a_gain_is_how_much_lower_they_are() -> None:
    generator = np.random.default_rng(1)
    alone = [generator.gamma(2.0, 1.0, 12) for _ in range(6)]
    joined = [part - 0.2 for part in alone]
    found = peers(joined, alone, "test_loss")
    one = pooled(found)
    assert one is not None
    assert one.verdict == "improved"
    assert "of loss" in pooled_text(found)


@pytest.mark.parametrize("share", [0.7, 0.72])
def test_where_nothing_differs_much_nothing_is_told(share: float) -> None:
    generator = np.random.default_rng(2)
    one = pooled(peers(right(generator, 0.7, [20] * 4), right(generator, share, [20] * 4)))
    assert one is not None
    assert one.verdict == "inconclusive"
    assert "inconclusive" in pooled_text([*peers(right(generator, 0.7, [20] * 4), right(generator, share, [20] * 4))])


def test_what_cannot_be_put_together_is_not() -> None:
    one = Effect(
        measure="accuracy", gain=0.1, low=0, high=0.2, rows=30, differ=3, verdict="inconclusive", algorithm="local"
    )
    assert pooled([one]) is None
    assert pooled([one, None]) is None
    assert pooled([one, Effect(measure="test_loss", gain=0.1, low=0, high=0.2, verdict="inconclusive")]) is None
    assert pooled([one, Effect(measure="accuracy", verdict="inconclusive", algorithm="local")]) is None
    assert pooled_text([]) == ""


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (5, 0), (3, 9), (400, 350), (30, 30)])
def test_the_sign_test_is_scipys(better: int, worse: int) -> None:
    expected = 1.0 if not better + worse else binomtest(better, better + worse).pvalue
    assert sign_test(better, worse) == pytest.approx(expected, rel=1e-9)
