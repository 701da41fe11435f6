"""Rules of sound privacy settings: delta by the number of units, and the share that an average hides worst."""

import math

import pytest

from dpeer.privacy.soundness import check_delta, default_delta, worst_share


def test_the_worst_share_is_the_largest_over_rows_and_honest_sets() -> None:
    rows = [[0.5, 0.25, 0.25, 0.0], [0.25, 0.25, 0.25, 0.25]]
    # Of three honest bodies the largest weight hides worst beside the two smallest.
    assert worst_share(rows, 3) == pytest.approx(0.5 / math.sqrt(0.5**2 + 2 * 0.25**2))
    assert worst_share(rows[1:], 4) == pytest.approx(0.5)


def test_delta_follows_from_the_number_of_peers() -> None:
    assert [default_delta(size) for size in (8, 10_000, 100_000)] == pytest.approx([1e-5, 1e-5, 1e-6])
    assert check_delta(1e-5, 8) is check_delta(0.1 / 8, 8) is None
    assert check_delta(0.02, 8) == "delta 0.02 is above 1/(10 N) = 0.0125 of 8 peers: choose that or less"
