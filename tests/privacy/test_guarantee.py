"""What guarantees promise, and what they charge."""

import math

import pytest
from pydantic import ValidationError

from dpeer.privacy import Charge, Guarantee, SampleGuarantee
from dpeer.privacy.guarantee import check_delta, default_delta, phases_of

JOINT = SampleGuarantee(1.0, 0.5, 1e-5, 0.05, phases_of(20))


def test_a_release_has_twice_the_clip_norm_as_its_sensitivity() -> None:
    neighbor = Guarantee(5.0, 0.2, 1e-5)
    assert neighbor.noise_std == pytest.approx(1.0)
    assert neighbor.charges(100) == (Charge(1.0, 1.0 / 0.4, 100),)
    assert neighbor.words == "one peer's whole data set, against a neighbor, replace-one"


def test_a_release_that_was_never_made_costs_nothing_and_no_other_is_free() -> None:
    assert Guarantee(5.0, 1.0, 1e-5).epsilon(0) == 0.0
    for wrong in ((0.0, 1.0, 1), (1.5, 1.0, 1), (0.1, 0.0, 1), (0.1, math.inf, 1), (0.1, 1.0, -1), (0.1, 1.0, 0.5)):
        with pytest.raises(ValidationError):
            Charge(*wrong)


def test_delta_follows_from_the_number_of_peers() -> None:
    assert [default_delta(size) for size in (8, 10_000, 100_000)] == pytest.approx([1e-5, 1e-5, 1e-6])
    assert check_delta(1e-5, 8) is check_delta(0.1 / 8, 8) is None
    assert check_delta(0.02, 8) == "delta 0.02 is above 1/(10 N) = 0.0125 of 8 peers: choose that or less"


def test_the_values_of_a_joint_head() -> None:
    assert JOINT.charges(15) == (Charge(0.05, 1.0, 300),)
    assert JOINT.steps(15) == 300
    assert JOINT.noise_std == 0.5
    assert JOINT.words == "one record of a peer's data, against everyone, neighbors included, add-or-remove"


def test_an_alternate_head_is_charged_for_both_counts() -> None:
    both = SampleGuarantee(1.0, 0.5, 1e-5, 0.05, phases_of(12, 8), "alternate")
    assert both.charges(15) == (Charge(0.05, 1.0, 120), Charge(0.05, 1.0, 180))
    assert both.steps(15) == 300
    assert (both.moves(15), JOINT.moves(15)) == (180, 300)
    assert both.epsilon(15) == JOINT.epsilon(15)


@pytest.mark.slow
def test_eight_hospitals_with_two_thousand_patients() -> None:
    # 60,000 parameters, 400 steps, epsilon 8: the noise left over the longest way is 0.04; at client level it is 87.
    found = SampleGuarantee(1.0, 1.0, 1e-5, 0.05, phases_of(20), units=2000).calibrated(8.0, 20)
    assert found.noise_ratio(60_000) == pytest.approx(found.noise_multiplier * math.sqrt(60_000) / 100)
    assert found.noise_over_way(60_000, 8, 20) == pytest.approx(0.04, abs=0.005)
