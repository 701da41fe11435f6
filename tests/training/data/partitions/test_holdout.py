"""Samples that are held out together with those that overlap them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.training.data.partitions import hold_out

seeds = st.integers(0, 2**32)


@settings(max_examples=100, deadline=None)
@given(seed=seeds, sizes=st.lists(st.integers(1, 12), min_size=2, max_size=60), share=st.floats(0.01, 0.99))
def test_never_parts_a_stretch(seed: int, sizes: list[int], share: float) -> None:
    """Whatever the order of rows; one stretch is held out at least, and one is left; as many as asked."""
    rng = np.random.default_rng(seed)
    stretches = rng.permutation(np.repeat(rng.permutation(1000)[: len(sizes)], sizes))
    strata = stretches % 3
    held = hold_out(strata, stretches, share, rng)
    assert (np.diff(held) > 0).all()
    out = set(stretches[held].tolist())
    assert not out & set(np.delete(stretches, held).tolist())
    assert 1 <= len(out) < len(sizes)
    assert abs(len(out) - share * len(sizes)) < 1 or len(out) in (1, len(sizes) - 1)


@settings(max_examples=100, deadline=None)
@given(seed=seeds, counts=st.lists(st.integers(0, 40), min_size=1, max_size=8), share=st.floats(0.05, 0.95))
def test_every_stratum_gives_its_share(seed: int, counts: list[int], share: float) -> None:
    strata = np.repeat(np.arange(len(counts)), counts)
    if len(strata) < 2:
        return
    rng = np.random.default_rng(seed)
    strata = rng.permutation(strata)
    held = hold_out(strata, None, share, rng)
    found = np.bincount(strata[held], minlength=len(counts))
    forced = len(held) in (1, len(strata) - 1)
    assert forced or abs(len(held) - share * len(strata)) < 1
    if not forced:
        assert (np.abs(found - share * np.array(counts)) < 1).all()


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_everybody_is_equally_likely(share: float) -> None:
    """Neither the first nor the last of a stratum, nor a long stretch, is favoured."""
    stretches = np.repeat(np.arange(20), np.arange(1, 21))
    strata = stretches // 10
    times = np.zeros(20)
    for seed in range(2000):
        held = hold_out(strata, stretches, share, np.random.default_rng(seed))
        times[np.unique(stretches[held])] += 1
    assert np.abs(times / 2000 - share).max() < 5 * np.sqrt(share * (1 - share) / 2000)


def test_draws_from_its_generator_alone() -> None:
    strata = np.arange(100) % 4
    np.random.seed(0)
    first = hold_out(strata, None, 0.2, np.random.default_rng(5))
    np.random.seed(1)
    assert np.array_equal(first, hold_out(strata, None, 0.2, np.random.default_rng(5)))
    assert not np.array_equal(first, hold_out(strata, None, 0.2, np.random.default_rng(6)))
    each = np.arange(100) * 7  # numbers of their own: as without stretches
    assert np.array_equal(first, hold_out(strata, each, 0.2, np.random.default_rng(5)))


@pytest.mark.parametrize("share", [0.001, 0.999])
def test_two_are_parted_and_one_is_not(share: float) -> None:
    for seed in range(20):
        assert len(hold_out(np.zeros(2, np.int64), None, share, np.random.default_rng(seed))) == 1
        whole = hold_out(np.zeros(5, np.int64), np.full(5, 3), share, np.random.default_rng(seed))
        assert not len(whole)
