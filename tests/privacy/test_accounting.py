"""The accountants against values from elsewhere, and charges against integrals of their own."""

import math

import pytest

from dpeer.privacy import accounting
from dpeer.privacy.accounting import Accountant, Charge, least_noise, merged, total_epsilon
from dpeer.privacy.guarantee import Guarantee

from .step_losses import delta_of_one, epsilon_of

pytestmark = pytest.mark.slow


def epsilon(
    multiplier: float, releases: int, delta: float, accountant: Accountant = "tight", sampling: float = 1.0
) -> float:
    return total_epsilon([Charge(sampling, multiplier, releases)], delta, accountant)


def calibrate(
    target: float, delta: float, releases: int, accountant: Accountant = "tight", sampling: float = 1.0
) -> float:
    """To seven digits."""
    return least_noise(lambda noise: [Charge(sampling, noise, releases)], target, delta, accountant, digits=7)


@pytest.mark.parametrize(("multiplier", "releases", "expected"), [(2.0, 10, 7.5113), (10.0, 500, 11.4800)])
def test_plain_gaussians(multiplier: float, releases: int, expected: float) -> None:
    assert epsilon(multiplier, releases, 1e-5) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("sampling", "multiplier", "delta", "pld", "rdp"),
    [(0.05, 1.0, 1e-5, 5.795, 6.464), (0.1, 2.0, 1 / 500, 2.700, 3.122)],
)
def test_poisson_sampled_gaussians(sampling: float, multiplier: float, delta: float, pld: float, rdp: float) -> None:
    assert epsilon(multiplier, 300, delta, "tight", sampling) == pytest.approx(pld, abs=5e-4)
    assert epsilon(multiplier, 300, delta, "rdp", sampling) == pytest.approx(rdp, abs=5e-4)


def test_what_the_noise_of_papers_promises_an_outsider_and_a_neighbor() -> None:
    # sigma 5, 100 releases, 16 peers, each of whom adds sigma C / sqrt(16): their average has sensitivity C / 16.
    each = 5.0 / math.sqrt(16)
    average = each * math.sqrt(16) / 16
    assert epsilon(average / (1 / 16), 100, 1e-5) == pytest.approx(9.997, abs=5e-4)
    assert epsilon(each, 100, 1e-5) == pytest.approx(65.3, abs=0.05)
    assert Guarantee(each, 1.0, 1e-5).epsilon(100) == pytest.approx(195, abs=0.5)


def test_a_delta_beyond_all_effect_of_the_steps_needs_no_epsilon_and_no_time() -> None:
    """Six steps differ by at most their total variations: 6 q (2 Phi(1 / (2 sigma)) - 1) = 0.23."""
    assert accounting.total_epsilon([Charge(0.1, 1.0, 6)], 0.5) == 0.0
    assert 6 * 0.1 * math.erf(0.5 / math.sqrt(2)) < 0.5


def test_a_huge_epsilon_takes_no_huge_grid() -> None:
    assert total_epsilon([Charge(1.0, 0.05, 100), Charge(0.999, 50.0, 1)], 1e-5) == pytest.approx(
        epsilon(0.05, 100, 1e-5), rel=1e-3
    )


@pytest.mark.parametrize(("accountant", "sampling"), [("tight", 1.0), ("tight", 0.1), ("rdp", 1.0)])
def test_calibrated_noise_is_enough_and_hardly_more(accountant: Accountant, sampling: float) -> None:
    multiplier = calibrate(0.5, 1e-5, 20, accountant, sampling)
    assert epsilon(multiplier, 20, 1e-5, accountant, sampling) <= 0.5
    assert epsilon(multiplier * (1.0 - 1e-5), 20, 1e-5, accountant, sampling) > 0.5


def test_a_calibrated_guarantee_lasts_exactly_the_rounds_that_it_was_made_for() -> None:
    for releases in (1, 7, 20, 300, 12_345):
        for epsilon_ in (0.3, 1.0, 10.0, 500.0):
            found = Guarantee(1.0, 0.2, 1e-5).calibrated(epsilon_, releases)
            assert found.epsilon(releases) <= epsilon_
            assert found.epsilon(releases + 1) > epsilon_


@pytest.mark.parametrize(
    ("rate", "sigma", "delta"), [(0.05, 1.0, 1e-5), (0.2, 0.7, 1e-6), (0.01, 2.0, 1e-4), (0.5, 3.0, 1e-3)]
)
def test_one_step_is_what_the_integral_over_its_densities_says(rate: float, sigma: float, delta: float) -> None:
    found = total_epsilon([Charge(rate, sigma, 1)], delta)
    assert found > 0.0
    # Never too little, and too much by hardly anything.
    assert delta_of_one(rate, sigma, found) <= delta * (1.0 + 1e-9)
    assert delta_of_one(rate, sigma, found * (1.0 - 2e-3)) > delta


@pytest.mark.parametrize(
    ("steps", "delta"),
    [
        ([(0.05, 1.0, 300)], 1e-5),
        ([(0.1, 2.0, 300)], 1 / 500),
        ([(0.05, 1.0, 100), (0.02, 1.5, 400)], 1e-5),
        ([(0.05, 1.2, 200), (1.0, 8.0, 5)], 1e-6),
    ],
)
def test_many_steps_of_several_kinds_are_what_their_losses_add_up_to(
    steps: list[tuple[float, float, int]], delta: float
) -> None:
    expected = epsilon_of(steps, delta)
    assert total_epsilon([Charge(*step) for step in steps], delta) == pytest.approx(expected, rel=3e-4)


def test_a_small_epsilon_is_not_that_of_a_coarse_grid() -> None:
    charge = Charge(0.01, 5.0, 1000)
    found = total_epsilon([charge], 1e-5)
    assert 0.1 < found < 0.3
    assert found == pytest.approx(epsilon_of([(0.01, 5.0, 1000)], 1e-5, width=2e-5), rel=3e-4)
    assert accounting.pld_epsilon([charge], 1e-5, 1e-3) > 1.01 * found


def test_what_a_paper_printed_as_a_bound_is_one() -> None:
    # Abadi et al., "Deep learning with differential privacy", 2016, section 3: epsilon 1.26 by the moments accountant.
    found = total_epsilon([Charge(0.01, 4.0, 10_000)], 1e-5)
    assert found == pytest.approx(epsilon_of([(0.01, 4.0, 10_000)], 1e-5, width=1e-4), rel=3e-4)
    assert 0.9 < found < total_epsilon([Charge(0.01, 4.0, 10_000)], 1e-5, "rdp") < 1.26


def test_releases_and_steps_add_up() -> None:
    releases = Charge(1.0, 5.0, 20)
    assert total_epsilon([releases], 1e-5) == epsilon(5.0, 20, 1e-5)
    more = Charge(1.0, 3.0, 4)
    assert total_epsilon([releases, more], 1e-5) == pytest.approx(
        epsilon(1.0 / math.hypot(math.sqrt(20) / 5, math.sqrt(4) / 3), 1, 1e-5), rel=1e-12
    )
    assert total_epsilon([releases, Charge(0.05, 1.0, 300)], 1e-5) > 5.795


@pytest.mark.parametrize("rate", [0.5, 0.25])
def test_what_peers_with_equal_steps_ask_is_computed_once(rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def computed(charges: tuple[Charge, ...], delta: float, grid: float) -> float:
        asked.append(charges)
        return 2.5

    monkeypatch.setattr(accounting, "pld_epsilon", computed)
    unlike = 3.0 + rate + 2**-20  # no other test asks for it
    assert [total_epsilon([Charge(rate, unlike, steps)], 1e-5) for steps in (7, 7, 9, 7)] == [2.5] * 4
    assert [charges[0].steps for charges in asked] == [7, 7, 9, 9], "each on two grids, which agree"


def test_of_more_steps_of_a_kind_only_the_composition_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer asks after each round, and the losses of one step take longer than their composition."""
    unlike = 1.0 + 2**-20  # no other test asks for it
    before = total_epsilon([Charge(0.05, unlike, 220)], 1e-5)
    monkeypatch.setattr("dp_accounting.pld.privacy_loss_distribution.from_gaussian_mechanism", None)
    assert before < total_epsilon([Charge(0.05, unlike, 240)], 1e-5) == pytest.approx(5.1972, abs=1e-3)


def test_neither_the_order_of_charges_nor_their_division_matters() -> None:
    """To the last digit: the sum is of the same charges in the same order."""
    charges = [Charge(0.2, 1.5, 3), Charge(0.1, 2.0, 5), Charge(0.1, 1.0, 2)]
    parts = [Charge(0.1, 1.0, 1), Charge(0.1, 2.0, 5), Charge(0.3, 1.0, 0), Charge(0.2, 1.5, 3), Charge(0.1, 1.0, 1)]
    assert merged(parts) == merged(charges) == tuple(sorted(charges))
    assert total_epsilon([Charge(0.1, 1.0, 0)], 1e-5) == total_epsilon([], 1e-5) == 0.0
