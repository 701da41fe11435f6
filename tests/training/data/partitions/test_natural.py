"""Whole groups, such as writers, for each peer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeer.exceptions import PartitionError
from dpeer.training.data.partitions import deal_groups


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), groups=st.integers(1, 40), size=st.integers(1, 40))
def test_whole_groups_in_nearly_equal_numbers(seed: int, groups: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(np.concatenate([np.arange(groups), rng.integers(0, groups, 200)])) * 3 + 5
    if groups < size:
        with pytest.raises(PartitionError, match=f"from {groups} writers, too few for {size} peers; at most --size"):
            deal_groups(numbers, size, "writer", seed)
        return
    parts = deal_groups(numbers, size, "writer", seed)
    assert len(parts) == size
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(numbers)))
    held = [set(numbers[part].tolist()) for part in parts]
    assert sum(map(len, held)) == groups
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert all((np.diff(part) > 0).all() for part in parts)


def test_one_each_is_in_order_of_the_names() -> None:
    """Rank r is the r-th writer, whatever the seed: what one knows of a writer stays with a rank."""
    names = np.array(["c", "a", "b", "a"])
    for seed in range(3):
        assert [part.tolist() for part in deal_groups(names, 3, "writer", seed)] == [[1, 3], [2], [0]]


def test_who_comes_together_depends_on_the_seed() -> None:
    numbers = np.repeat(np.arange(12), 3)
    first = deal_groups(numbers, 3, "writer", 1)
    assert all(np.array_equal(a, b) for a, b in zip(first, deal_groups(numbers, 3, "writer", 1), strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, deal_groups(numbers, 3, "writer", 2), strict=True))
