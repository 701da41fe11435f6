"""What can be read off steps whose draws are known: sound ones pass, each defect is noticed."""

from collections.abc import Callable

import numpy as np
import pytest

from dpeer.privacy import Charge, SampleGuarantee, step_checks
from dpeer.privacy.mechanism import ClippedSum
from dpeer.privacy.noise import grid
from dpeer.privacy.sample_level import phases_of

RATE, STEPS, UNITS = 0.25, 400, 4
Draw = Callable[[np.random.Generator], np.ndarray]


def poisson(draw: np.random.Generator, rate: float = RATE) -> np.ndarray:
    return draw.random((STEPS, UNITS)) < rate


def failed(draws: list[np.ndarray]) -> set[str]:
    return {check.name for check in step_checks.sampled(draws, RATE) if not check.held}


@pytest.mark.parametrize("seed", range(20))
def test_poisson_draws_pass(seed: int) -> None:
    draw = np.random.default_rng(seed)
    assert failed([poisson(draw), poisson(draw)]) == set()


def fixed(draw: np.random.Generator) -> np.ndarray:
    return draw.permuted(np.tile(np.arange(UNITS) == 0, (STEPS, 1)), axis=1)


def never_empty(draw: np.random.Generator) -> np.ndarray:
    found = poisson(draw)
    found[~found.any(axis=1), 0] = True
    return found


def in_turns(draw: np.random.Generator) -> np.ndarray:
    """Each unit once in each pass of four steps, wherever it is."""
    whose = draw.integers(4, size=(STEPS // 4, 1, UNITS))
    return (np.arange(4)[None, :, None] == whose).reshape(STEPS, UNITS)


def one_more_often(draw: np.random.Generator) -> np.ndarray:
    found = poisson(draw)
    found[:, 1] |= draw.random(STEPS) < 0.3
    return found


@pytest.mark.parametrize(
    ("wrong", "name"),
    [(fixed, "batch sizes"), (never_empty, "batch sizes"), (in_turns, "passes"), (one_more_often, "sampling rate"),
     (lambda draw: poisson(draw, 0.4), "sampling rate")],
)  # fmt: skip
def test_other_draws_are_noticed(wrong: Draw, name: str) -> None:
    draw = np.random.default_rng(1)
    assert name in failed([wrong(draw), wrong(draw)])


def test_few_steps_for_a_small_rate_are_no_defect() -> None:
    draws = np.random.default_rng(2).random((20, UNITS)) < 0.01
    assert all(check.held for check in step_checks.sampled([draws, draws], 0.01))
    assert all(check.held for check in step_checks.sampled([np.ones((20, 2), dtype=bool)], 1.0))


def test_draws_that_come_again_are_noticed() -> None:
    draw = np.random.default_rng(3)
    one, other = poisson(draw), poisson(draw)
    assert step_checks.drawn_anew([one, other], RATE).held
    assert not step_checks.drawn_anew([one, other, one], RATE).held
    everybody = np.ones((50, 2), dtype=bool)
    assert step_checks.drawn_anew([everybody, everybody], 1.0).held


def test_who_is_in_a_sum_is_read_off_it() -> None:
    draw = np.random.default_rng(4)
    gradients = draw.normal(size=(30, 5, 12))
    gradients /= np.linalg.norm(gradients, axis=2, keepdims=True)
    inside = draw.random((30, 5)) < 0.5
    sums = np.einsum("su,suv->sv", inside * 0.999, gradients) + 1e-7 * draw.normal(size=(30, 12))
    found, apart = step_checks.drawn(sums, gradients)
    assert np.array_equal(found, inside)
    assert step_checks.by_hand("sound", apart, 30).held
    for wrong in (0.9 * sums, 2.0 * sums, 1.01 * sums, sums + 1e-3):
        assert not step_checks.by_hand("wrong", step_checks.drawn(wrong, gradients)[1], 30).held


def test_values_beside_the_grid_are_noticed() -> None:
    mechanism = ClippedSum(0.7, 1.3, 0.05, 1000)
    released = mechanism.released(np.linspace(-2, 2, 500))
    step = grid(mechanism.noise_std)
    assert step_checks.on_grid_after_division(released, step, mechanism.expected).held
    assert not step_checks.on_grid_after_division(released, step, 49.0).held
    moved = released + np.float32(1e-6)
    assert not step_checks.on_grid_after_division(moved, step, mechanism.expected).held


def test_a_ledger_that_says_less_is_noticed() -> None:
    step = Charge(0.25, 1.0, 1)
    cost = SampleGuarantee(0.25, 1.0, 1.0, 1e-5, phases_of(8)).epsilon(1)
    sound = [[Charge(0.25, 1.0, 4), Charge(0.25, 1.0, 4)]] * 3

    def held(charges: list[list[Charge]], said: float = cost) -> bool:
        return step_checks.charged(step, [8] * len(charges), charges, 1e-5, said).held

    assert held(sound)
    assert not held(sound, 0.99 * cost)
    for other in (Charge(0.25, 1.0, 7), Charge(0.2, 1.0, 8), Charge(0.25, 1.5, 8)):
        assert not held([*sound, [other]])
    assert step_checks.counted("more noise than needed", step, 8, [Charge(0.25, 0.7, 8)]).held
