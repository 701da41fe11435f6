"""The accountants against values from elsewhere."""

import math

import pytest

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.privacy import accounting, planning
from dpeer.privacy.accounting import Accountant, Charge, calibrate, epsilon
from dpeer.privacy.guarantee import Guarantee, uniform_share

SLOW_PLD = pytest.param("pld", marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["exact", "pld"])
@pytest.mark.parametrize(("multiplier", "releases", "expected"), [(2.0, 10, 7.5113), (10.0, 500, 11.4800)])
def test_plain_gaussians(accountant: Accountant, multiplier: float, releases: int, expected: float) -> None:
    assert epsilon(multiplier, releases, 1e-5, accountant) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("sampling", "multiplier", "delta", "pld", "rdp"),
    [(0.05, 1.0, 1e-5, 5.795, 6.464), (0.1, 2.0, 1 / 500, 2.700, 3.122)],
)
def test_poisson_sampled_gaussians(sampling: float, multiplier: float, delta: float, pld: float, rdp: float) -> None:
    assert epsilon(multiplier, 300, delta, "pld", sampling) == pytest.approx(pld, abs=5e-4)
    assert epsilon(multiplier, 300, delta, "rdp", sampling) == pytest.approx(rdp, abs=5e-4)


def test_an_outsider_and_a_neighbor_of_the_same_noise() -> None:
    # sigma 5, 100 releases, 16 peers.
    aggregate = Guarantee(5.0, 1.0, 1e-5, "aggregate", "zero-out", uniform_share(16))
    assert planning.epsilon(aggregate, 100) == pytest.approx(9.997, abs=5e-4)
    assert planning.epsilon(aggregate, 100, adversary="neighbor") == pytest.approx(65.3, abs=0.05)
    replaced = Guarantee(5.0, 1.0, 1e-5, "aggregate", "replace", uniform_share(16))
    assert planning.epsilon(replaced, 100, adversary="neighbor") == pytest.approx(195, abs=0.5)


def test_how_much_noise_that_is() -> None:
    # Section 7. Its values for P1 and P2 are those of delta 1/500 and 1e-3, not of 1e-5.
    ten = planning.calibrated(Guarantee(1.0, 1.0, 1e-5), 10.0, 20)
    assert planning.noise_ratio(ten, 60_000) == pytest.approx(1100, abs=50)
    cifar = planning.calibrated(Guarantee(1.0, 0.1, 1e-3), 1.0, 200)
    assert planning.noise_ratio(cifar, 667_402) == pytest.approx(59_000, abs=500)
    assert Guarantee(0.95, 0.2, 1 / 500).epsilon(300) == pytest.approx(770, abs=5)


@pytest.mark.slow
def test_exact_has_no_error_that_the_others_have() -> None:
    exact = epsilon(2.2, 40, 1e-6)
    assert exact <= epsilon(2.2, 40, 1e-6, "pld") <= exact + 1e-4
    assert exact < epsilon(2.2, 40, 1e-6, "rdp") < 1.2 * exact


@pytest.mark.slow
def test_sampling_one_is_no_sampling_and_none_releases_nothing() -> None:
    assert epsilon(2.0, 10, 1e-5, "pld", 1.0) == epsilon(2.0, 10, 1e-5, "pld")
    for accountant in ("exact", "pld", "rdp"):
        assert epsilon(2.0, 10, 1e-5, accountant, 0.0) == 0.0
        assert epsilon(2.0, 0, 1e-5, accountant) == 0.0


def test_a_delta_beyond_all_effect_of_the_steps_needs_no_epsilon_and_no_time() -> None:
    """Six steps differ by at most their total variations: 6 q (2 Phi(1 / (2 sigma)) - 1) = 0.23."""
    assert accounting.total_epsilon([Charge(0.1, 1.0, 6)], 0.5, "pld") == 0.0
    assert 6 * 0.1 * math.erf(0.5 / math.sqrt(2)) < 0.5


@pytest.mark.slow
def test_a_huge_epsilon_takes_no_huge_grid() -> None:
    assert epsilon(0.01, 100, 1e-5, "pld") == pytest.approx(epsilon(0.01, 100, 1e-5), rel=1e-4)


@pytest.mark.parametrize("accountant", ["exact", SLOW_PLD, "rdp"])
@pytest.mark.parametrize("target", [0.5, 10.0])
def test_calibrated_noise_is_enough_and_hardly_more(accountant: Accountant, target: float) -> None:
    multiplier = calibrate(target, 1e-5, 20, accountant)
    assert epsilon(multiplier, 20, 1e-5, accountant) <= target
    assert epsilon(multiplier * (1.0 - 1e-5), 20, 1e-5, accountant) > target


@pytest.mark.slow
@pytest.mark.parametrize("accountant", [SLOW_PLD, "rdp"])
def test_calibrating_with_sampling(accountant: Accountant, capfd: pytest.CaptureFixture[str]) -> None:
    multiplier = calibrate(5.795, 1e-5, 300, accountant, 0.05)
    assert epsilon(multiplier, 300, 1e-5, accountant, 0.05) <= 5.795
    assert multiplier == pytest.approx({"pld": 1.0, "rdp": 1.0568}[accountant], abs=1e-3)
    assert capfd.readouterr().err == ""


def test_a_calibrated_guarantee_lasts_exactly_the_rounds_that_it_was_made_for() -> None:
    for releases in (1, 7, 20, 300, 12_345):
        for epsilon_ in (0.3, 1.0, 10.0, 500.0):
            found = planning.calibrated(Guarantee(1.0, 0.2, 1e-5), epsilon_, releases)
            assert found.epsilon(releases) <= epsilon_
            assert found.releases(epsilon_) == releases
            assert planning.releases(found, epsilon_) == releases


@pytest.mark.parametrize("accountant", [SLOW_PLD, "rdp"])
def test_releases_by_another_accountant_are_the_last_within(accountant: Accountant) -> None:
    guarantee = Guarantee(9.0, 1.0, 1e-5)
    most = planning.releases(guarantee, 8.0, accountant)
    assert planning.epsilon(guarantee, most, accountant) <= 8.0 < planning.epsilon(guarantee, most + 1, accountant)


def test_drowning_is_noise_against_the_way_in_the_best_of_cases() -> None:
    # 8 bodies, 20 rounds: noise of one message 2 C, so 2 C sqrt(20 / 8) is left, and 20 C is the way.
    assert planning.drowning(2.0, 8, 20) == pytest.approx(2.0 * math.sqrt(20 / 8) / 20)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0.0, 1, 1e-5), "noise over sensitivity 0"),
        ((math.inf, 1, 1e-5), "noise over sensitivity inf"),
        ((1.0, -1, 1e-5), "releases -1"),
        ((1.0, 1, 0.0), "delta 0"),
        ((1.0, 1, 1e-5, "pld", 1.5), "sampling 1.5"),
        ((1.0, 1, 1e-5, "exact", 0.5), "choose pld"),
    ],
)
def test_what_cannot_be_accounted_for(arguments: tuple[float, int, float], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        epsilon(*arguments)


def test_what_cannot_be_calibrated() -> None:
    with pytest.raises(ConfigurationError, match="target epsilon 0"):
        calibrate(0.0, 1e-5, 1)
    with pytest.raises(ConfigurationError, match="at least 1 round"):
        calibrate(1.0, 1e-5, 0)
    with pytest.raises(ConfigurationError, match="parameters 0"):
        planning.noise_ratio(Guarantee(1.0, 1.0, 1e-5), 0)


def test_an_accountant_that_there_is_not() -> None:
    with pytest.raises(UnknownName, match="did you mean 'exact'"):
        epsilon(1.0, 1, 1e-5, "exakt")
    assert accounting.ACCOUNTANTS == ("exact", "pld", "rdp")
