"""What sample-level privacy promises, and what it is charged."""

import math

import pytest

from dpeer.privacy import Charge, SampleGuarantee
from dpeer.privacy.outlook import noise_over_drift
from dpeer.privacy.sample_level import phases_of

JOINT = SampleGuarantee(0.05, 1.0, 0.5, 1e-5, phases_of(20))


def test_the_values_of_a_joint_head() -> None:
    assert JOINT.charges(15) == (Charge(0.05, 1.0, 300),)
    assert JOINT.compositions(15) == 300
    assert JOINT.epsilon(15) == pytest.approx(5.795, abs=5e-4)
    assert JOINT.epsilon(15, "rdp") == pytest.approx(6.464, abs=5e-4)
    assert JOINT.noise_std == 0.5
    assert JOINT.words == "one record of a peer's data, against everyone, neighbors included, add-or-remove"


def test_an_alternate_head_is_charged_for_both_counts() -> None:
    both = SampleGuarantee(0.05, 1.0, 0.5, 1e-5, phases_of(12, 8), "alternate")
    assert both.charges(15) == (Charge(0.05, 1.0, 120), Charge(0.05, 1.0, 180))
    assert both.compositions(15) == 300
    assert (both.moves(15), JOINT.moves(15)) == (180, 300)
    assert both.epsilon(15) == JOINT.epsilon(15)


def test_a_head_that_is_not_trained_while_bodies_leave_costs_nothing() -> None:
    assert SampleGuarantee(0.05, 1.0, 0.5, 1e-5, phases_of(20), "post").charges(15) == JOINT.charges(15)


@pytest.mark.slow
def test_calibrated_noise_lasts_the_rounds_that_it_was_made_for() -> None:
    both = SampleGuarantee(0.05, 1.0, 0.5, 1e-5, phases_of(12, 8), "alternate")
    found = both.calibrated(3.0, 20)
    assert found.epsilon(20) <= 3.0
    assert (found.head, found.phases, found.clip_norm) == ("alternate", both.phases, 0.5)


@pytest.mark.slow
def test_eight_hospitals_with_two_thousand_patients() -> None:
    # 60,000 parameters, 400 steps, epsilon 8: the noise left over the longest way is 0.04; at client level it is 87.
    found = SampleGuarantee(0.05, 1.0, 1.0, 1e-5, phases_of(20), units=2000).calibrated(8.0, 20)
    ratio = found.noise_ratio(60_000)
    assert ratio == pytest.approx(found.noise_multiplier * math.sqrt(60_000) / 100)
    assert noise_over_drift(ratio, 8, 400) == pytest.approx(0.04, abs=0.005)
