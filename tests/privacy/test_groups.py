"""Epsilon of a group of records, against integrals, closed forms, dp-accounting's own mixtures and the general rule."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from dpeer.privacy.accounting import Charge, total_epsilon
from dpeer.privacy.gaussian import epsilon as epsilon_of_mu
from dpeer.privacy.groups import GroupStep, by_losses, of_group

from .step_losses import delta_of_one, epsilon_of, with_group

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("rate", "sigma", "delta", "records"),
    [(0.05, 1.0, 1e-5, 2), (0.2, 1.5, 1e-6, 5), (0.01, 2.0, 1e-4, 20), (0.5, 3.0, 1e-3, 3)],
)
def test_one_step_is_what_the_integral_over_its_densities_says(
    rate: float, sigma: float, delta: float, records: int
) -> None:
    found = of_group([Charge(rate, sigma, 1)], delta, records)
    # Never too little, and too much by hardly anything.
    assert delta_of_one(rate, sigma, found, records) <= delta * (1.0 + 1e-9)
    assert delta_of_one(rate, sigma, found * (1.0 - 2e-3), records) > delta


@pytest.mark.parametrize(
    ("steps", "delta", "records", "width"),
    [
        ([(0.05, 1.0, 2)], 1e-5, 5, 1e-4),
        ([(0.05, 2.0, 300)], 1e-5, 4, 1e-3),
        ([(0.1, 5.0, 300)], 1 / 500, 10, 1e-3),
        ([(0.01, 4.0, 10_000)], 1e-5, 5, 2e-4),
        ([(0.05, 2.0, 100), (0.02, 1.5, 400)], 1e-6, 3, 1e-3),
    ],
)
def test_steps_are_what_their_losses_add_up_to(
    steps: list[tuple[float, float, int]], delta: float, records: int, width: float
) -> None:
    expected = epsilon_of(steps, delta, width, records=records)
    assert of_group([Charge(*step) for step in steps], delta, records) == pytest.approx(expected, rel=3e-4)


def test_steps_and_releases_add_up_to_what_dp_accounting_says_of_mixtures() -> None:
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=4e-3)
    accountant.compose(MixtureOfGaussiansDpEvent(1.0, range(4), binom.pmf(range(4), 3, 0.05)), 200)
    accountant.compose(MixtureOfGaussiansDpEvent(10.0, [3.0], [1.0]), 5)
    found = of_group([Charge(0.05, 1.0, 200), Charge(1.0, 10.0, 5)], 1e-5, 3)
    assert found == pytest.approx(accountant.get_epsilon(1e-5), rel=5e-4)


@pytest.mark.parametrize("records", [1, 2, 7])
def test_without_sampling_it_is_the_closed_form_of_a_longer_update(records: int) -> None:
    charges = [Charge(1.0, 50.0, 20), Charge(1.0, 30.0, 4)]
    mu = records * math.sqrt(20 / 2500 + 4 / 900)
    assert of_group(charges, 1e-5, records, "exact") == pytest.approx(epsilon_of_mu(mu, 1e-5), rel=1e-9)
    assert of_group(charges, 1e-5, records) == pytest.approx(epsilon_of_mu(mu, 1e-5), rel=1e-3)
    assert of_group(charges, 1e-5, records, "rdp") > epsilon_of_mu(mu, 1e-5)
    assert of_group([Charge(1.0, 1.0, 4)], 1e-5, records, "exact") == epsilon_of_mu(2.0 * records, 1e-5)


@pytest.mark.parametrize("charge", [Charge(0.05, 1.0, 300), Charge(0.01, 4.0, 10_000), Charge(0.2, 0.7, 1)])
def test_a_group_of_one_record_is_a_record(charge: Charge) -> None:
    one = total_epsilon([charge], 1e-5)
    assert of_group([charge], 1e-5, 1) == one
    assert of_group([charge], 1e-5, 1, "rdp") == total_epsilon([charge], 1e-5, "rdp")
    assert by_losses((charge,), 1e-5, 1) == pytest.approx(one, rel=1e-4), "the way of larger groups says so, too"


@given(st.floats(0.002, 0.2), st.floats(0.8, 8.0), st.integers(1, 2000), st.integers(2, 12), st.floats(-7.0, -3.0))
@settings(max_examples=4, deadline=None)
def test_it_lies_between_fewer_records_and_what_holds_for_any_mechanism(
    rate: float, sigma: float, steps: int, records: int, power: float
) -> None:
    charges, delta = [Charge(rate, sigma, steps)], 10.0**power
    one = total_epsilon(charges, delta)
    found = of_group(charges, delta, records)
    assert found >= of_group(charges, delta, records - 1) * (1.0 - 1e-3)
    # All records in every step are worse than some of them in some.
    assert found <= total_epsilon([Charge(1.0, sigma / records, steps)], delta, "exact") * (1.0 + 1e-3) + 1e-3
    if records * one < 30.0:  # the rule for groups of any mechanism; its delta is above 1 soon
        general = delta * math.expm1(records * one) / math.expm1(one) if one else delta * records
        if general < 0.5:
            assert of_group(charges, general, records) <= records * one * (1.0 + 1e-3) + 1e-3


@pytest.mark.parametrize(("rate", "sigma", "records"), [(0.01, 0.3, 20), (0.05, 1.0, 5), (0.3, 10.0, 3)])
def test_the_divergence_is_that_beyond_the_point_where_the_densities_have_this_ratio(
    rate: float, sigma: float, records: int
) -> None:
    shares = with_group(rate, records)

    def mixed(function: Callable[[float], float], x: float) -> float:
        return math.fsum(share * function((x - k) / sigma) for k, share in shares)

    def ratio(x: float) -> float:
        return math.log(mixed(norm.pdf, x)) - norm.logpdf(x / sigma)

    step = GroupStep(Charge(rate, sigma, 1), records, 1e-15)
    points = np.linspace(-2.0 * sigma, 3.0 * sigma, 11)
    ratios = np.array([ratio(x) for x in points])
    remove = [mixed(norm.sf, x) - math.exp(one) * norm.sf(x / sigma) for x, one in zip(points, ratios, strict=True)]
    add = [norm.cdf(x / sigma) - math.exp(-one) * mixed(norm.cdf, x) for x, one in zip(points, ratios, strict=True)]
    assert step.deltas(ratios, "remove") == pytest.approx(remove, rel=1e-9, abs=1e-14)
    assert step.deltas(-ratios[::-1], "add")[::-1] == pytest.approx(add, rel=1e-9, abs=1e-14)


@given(st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=4), st.floats(0.02, 0.6), st.floats(0.5, 3.0))
@settings(max_examples=30, deadline=None)
def test_records_that_disagree_or_are_clipped_less_are_told_apart_no_better(
    moves: Sequence[float], rate: float, sigma: float
) -> None:
    x = np.linspace(-len(moves) - 10 * sigma, len(moves) + 10 * sigma, 20_001)
    without, with_group = norm.pdf(x, 0.0, sigma), np.zeros_like(x)
    for subset in range(2 ** len(moves)):
        there = [bool(subset >> place & 1) for place in range(len(moves))]
        share = math.prod(rate if one else 1.0 - rate for one in there)
        centre = sum(move for move, one in zip(moves, there, strict=True) if one)
        with_group += share * norm.pdf(x, centre, sigma)
    step = GroupStep(Charge(rate, sigma, 1), len(moves), 1e-15)
    epsilons = np.array([-1.0, -0.1, 0.0, 0.05, 0.3, 1.0, 3.0])
    for direction, above, below in (("remove", with_group, without), ("add", without, with_group)):
        bound = step.deltas(epsilons, direction)
        for epsilon, most in zip(epsilons, bound, strict=True):
            assert np.sum(np.maximum(0.0, above - np.exp(epsilon) * below)) * (x[1] - x[0]) <= most + 1e-7
