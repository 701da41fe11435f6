"""Rules of sound privacy settings: delta by the number of units."""

import pytest

from dpeer.privacy.soundness import check_delta, default_delta


def test_delta_follows_from_the_number_of_peers() -> None:
    assert [default_delta(size) for size in (8, 10_000, 100_000)] == pytest.approx([1e-5, 1e-5, 1e-6])
    assert check_delta(1e-5, 8) is check_delta(0.1 / 8, 8) is None
    assert check_delta(0.02, 8) == "delta 0.02 is above 1/(10 N) = 0.0125 of 8 peers: choose that or less"
