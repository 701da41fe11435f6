"""SCAFFOLD, FedAvg-LS, FedOpt, FAFED, FedLADA and FedAdamW against numpy: three rounds, other data on each peer."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dpeer.privacy import Charge
from dpeer.privacy.accounting import total_epsilon
from dpeer.training import TorchLearner
from dpeer.training.algorithms.fedavg_ls import smoothed
from tests.training.dp_learners import sampled
from tests.training.linear import (
    BODY,
    COUNT,
    DECAY,
    FULL,
    RING,
    SHAPES,
    SIZE,
    STEPS,
    Vector,
    begin,
    gradient,
    models,
    peers,
    task,
)
from tests.training.small import floats, gossip, mix

ROUNDS = 3


def mixed(weights: NDArray[Any], vectors: list[Vector], shared: int) -> list[Vector]:
    """What begins each vector is averaged, the rest is each peer's own."""
    sent = np.stack(vectors)[:, :shared]
    return [np.concatenate([row @ sent, own[shared:]]) for row, own in zip(weights, vectors, strict=True)]


def zeros() -> list[Vector]:
    return [np.zeros(COUNT) for _ in range(SIZE)]


Rounds = Callable[[list[NDArray[Any]], list[list[int]], int, float], list[Vector]]
"""Of each round's weights and those who train in it, the values that are shared, and the rate."""


def scaffold(
    weights: list[NDArray[Any]], active: list[list[int]], shared: int, lr: float, share: float = 1.0
) -> list[Vector]:
    """With the paper's option II, by the way that the model went; a server's variates change by a share of means."""
    x, own, tracked = [begin() for _ in range(SIZE)], zeros(), zeros()
    for number, matrix in enumerate(weights):
        rate, after = lr * DECAY**number, [*x]
        for i in active[number]:
            y = x[i].copy()
            for _ in range(STEPS):
                y = y - rate * (gradient(y, i) - own[i] + tracked[i])
            new = own[i] - tracked[i] + (x[i] - y) / (STEPS * rate)
            new[shared:] = 0
            tracked[i], own[i] = tracked[i] + share * (new - own[i]), new
            after[i] = y
        x, tracked = mixed(matrix, after, shared), mixed(matrix, tracked, shared)
    return x


def fedavg_ls(
    weights: list[NDArray[Any]], active: list[list[int]], shared: int, lr: float, strength: float = 1.0
) -> list[Vector]:
    """With the matrix of each tensor, solved."""
    inverse = np.eye(COUNT)
    offset = 0
    for shape in SHAPES:
        count = int(np.prod(shape))
        here = slice(offset, offset + count)
        if offset < shared:
            ring = np.eye(count)
            laplacian = np.roll(ring, 1, axis=0) + np.roll(ring, -1, axis=0) - 2 * ring
            inverse[here, here] = np.linalg.inv(ring - strength * laplacian)
        offset += count
    x = [begin() for _ in range(SIZE)]
    for number, matrix in enumerate(weights):
        after = [*x]
        for i in active[number]:
            after[i] = descended(x[i], i, lr * DECAY**number)
        x = [was + inverse @ (now - was) for was, now in zip(x, mixed(matrix, after, shared), strict=True)]
    return x


def descended(y: Vector, rank: int, rate: float) -> Vector:
    for _ in range(STEPS):
        y = y - rate * gradient(y, rank)
    return y


def fedopt(
    weights: list[NDArray[Any]], active: list[list[int]], shared: int, lr: float, yogi: bool = False
) -> list[Vector]:
    x, mean, squares = [begin() for _ in range(SIZE)], zeros(), [np.full(COUNT, 1e-6) for _ in range(SIZE)]
    for number, matrix in enumerate(weights):
        changes = zeros()
        for i in active[number]:
            changes[i] = descended(x[i], i, lr * DECAY**number) - x[i]
        x, changes = mixed(matrix, x, shared), mixed(matrix, changes, shared)
        for i, change in enumerate(changes):
            mean[i] = 0.9 * mean[i] + 0.1 * change
            if yogi:
                squares[i] = squares[i] - 0.01 * change**2 * np.sign(squares[i] - change**2)
            else:
                squares[i] = 0.99 * squares[i] + 0.01 * change**2
            step = 0.01 * mean[i] / (np.sqrt(squares[i]) + 1e-3)
            x[i] = x[i] + np.where(np.arange(COUNT) < shared, step, change)
    return x


def fafed(
    weights: list[NDArray[Any]], active: list[list[int]], shared: int, lr: float, corrected: bool = True
) -> list[Vector]:
    x, mean, squares = [begin() for _ in range(SIZE)], zeros(), zeros()
    for number, matrix in enumerate(weights):
        for i in active[number]:
            divisor = np.sqrt(squares[i]) + 0.01
            for step in range(STEPS):
                before = x[i]
                if number == step == 0:
                    mean[i] = gradient(x[i], i)
                    squares[i] = mean[i] ** 2
                    divisor = np.sqrt(squares[i]) + 0.01
                    continue
                x[i] = (1 - lr * DECAY**number * 0.1) * x[i] - lr * DECAY**number * mean[i] / divisor
                new, old = gradient(x[i], i), gradient(before, i)
                mean[i] = new + 0.9 * (mean[i] - old) if corrected else 0.1 * new + 0.9 * mean[i]
                squares[i] = 0.99 * squares[i] + 0.01 * new**2
        x, mean, squares = (mixed(matrix, vectors, shared) for vectors in (x, mean, squares))
    return x


def fedlada(weights: list[NDArray[Any]], active: list[list[int]], shared: int, lr: float) -> list[Vector]:
    """With the paper's direction, by the way that the model went without the decay."""
    x, squares, direction = [begin() for _ in range(SIZE)], zeros(), zeros()
    for number, matrix in enumerate(weights):
        rate = lr * DECAY**number
        for i in active[number]:
            mean, second = np.zeros(COUNT), np.maximum(squares[i], 1e-16)
            largest, way = second, np.zeros(COUNT)
            for _ in range(STEPS):
                g = gradient(x[i], i)
                mean, second = 0.9 * mean + 0.1 * g, 0.99 * second + 0.01 * g**2
                largest = np.maximum(largest, second)
                moved = rate * (0.1 * mean / np.sqrt(largest) + 0.9 * direction[i])
                x[i], way = (1 - rate * 0.1) * x[i] - moved, way + moved
            squares[i], direction[i] = largest, way / (STEPS * rate)
        x, squares, direction = (mixed(matrix, vectors, shared) for vectors in (x, squares, direction))
    return x


def fedadamw(
    weights: list[NDArray[Any]],
    active: list[list[int]],
    shared: int,
    lr: float,
    aggregate: str = "mean",
    gamma: float = 0.5,
    decay: float = 0.1,
) -> list[Vector]:
    """Algorithm 1, with the mean change of the last round in place of the server's."""
    x, known, moved = [begin() for _ in range(SIZE)], zeros(), zeros()
    layers = slice(0, BODY), slice(BODY, COUNT)
    for number, matrix in enumerate(weights):
        rate, after, seconds, changes = lr * DECAY**number, [*x], zeros(), zeros()
        for i in active[number]:
            m, v = np.zeros(COUNT), known[i]
            for k in range(1, STEPS + 1):
                g = gradient(after[i], i)
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
                second = v if known[i].any() else v / (1 - 0.999**k)
                step = m / (1 - 0.9**k) / (np.sqrt(second) + 1e-8) + gamma * moved[i] + decay * after[i]
                after[i] = after[i] - rate * step
            changes[i] = x[i] - after[i]
            if aggregate != "none":
                means = [np.full_like(second[layer], second[layer].mean()) for layer in layers]
                seconds[i] = second if aggregate == "full" else np.concatenate(means)
        x, known, changes = (mixed(matrix, vectors, shared) for vectors in (after, seconds, changes))
        moved = [np.where(np.arange(COUNT) < shared, change, 0) / (STEPS * rate) for change in changes]
    return x


DECAYED = {"body_lr": 0.02, "weight_decay": 0.1}
CASES: dict[str, tuple[Rounds, dict[str, Any], dict[str, Any]]] = {
    "scaffold": (scaffold, {}, {}),
    "fedavg-ls": (fedavg_ls, {}, {}),
    "fedavg-ls 3": (partial(fedavg_ls, strength=3.0), {"smoothing": 3.0}, {}),
    "fedopt": (fedopt, {}, {}),
    "fedopt yogi": (partial(fedopt, yogi=True), {"server_optimizer": "yogi"}, {}),
    "fafed": (fafed, {}, DECAYED),
    "fafed adam": (partial(fafed, corrected=False), {"corrected": False}, DECAYED),
    "fedlada": (fedlada, {}, DECAYED | {"momentum": 0.9}),
    **{
        f"fedadamw {options}": (partial(fedadamw, **options), options, DECAYED | {"momentum": 0.9})
        for options in ({}, {"gamma": 0.0}, {"aggregate": "none"}, {"aggregate": "full", "gamma": 1.0})
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "head"), [(RING, ("head",)), (FULL, ())], ids=["ring, head", "full, all"])
@pytest.mark.parametrize("case", CASES)
def test_three_rounds_are_those_of_the_formulas(case: str, head: tuple[str, ...], weights: NDArray[Any]) -> None:
    rounds, options, more = CASES[case]
    learners = peers(case.split()[0], head, options=options, **more)
    gossip(learners, ROUNDS, weights=weights)
    everybody = [[*range(SIZE)]] * ROUNDS
    expected = rounds([weights] * ROUNDS, everybody, BODY if head else COUNT, more.get("body_lr", 0.1))
    found = models(learners)
    assert max(np.abs(ours - begin()).max() for ours in found) > 0.02
    for ours, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, right, rtol=0, atol=2e-5)
    if not head and weights is FULL:
        assert np.ptp(np.stack(found), axis=0).max() < 1e-5, "one model for all, as with a server"


# The control variates of SCAFFOLD: what is tracked of them, and what they are good for.


def means(learners: list[TorchLearner], p: tuple[float, ...] | None = None) -> tuple[Vector, Vector]:
    """Over the peers, by p or alike: of what is tracked, and of their own variates."""
    tracked = [ours.trainer.extras["variates"].double().numpy() for ours in learners]
    own = [ours.algorithm.state["own"].double().numpy() for ours in learners]
    return np.average(tracked, axis=0, weights=p), np.average(own, axis=0, weights=p)


def test_a_message_lost_in_one_direction_shifts_what_is_tracked_for_good() -> None:
    learners = peers("scaffold")
    lost = RING.copy()
    lost[0, 0], lost[0, 1] = 2 / 3, 0.0
    gossip(learners, 1, weights=lost)
    shifts = []
    for number in range(1, 4):
        gossip(learners, 1, start=number)
        tracked, own = means(learners)
        shifts.append(tracked - own)
    assert np.abs(shifts[0]).max() > 1e-3
    np.testing.assert_allclose(shifts[1:], [shifts[0]] * 2, rtol=0, atol=1e-6)


# What SCAFFOLD, FedAvg-LS, FedOpt, FAFED and FedLADA spend at sample level, and what they say once it is spent.


def test_a_peer_whose_budget_has_ended_says_of_no_change_again(tmp_path: Path) -> None:
    """FedOpt steps along what changed: the last change, said in every round, would carry the model off for ever."""
    learner = sampled(
        task(0, ()), tmp_path, "fedopt", noise=3.0, units=20, budget=3.0, rounds=2, hyper={"momentum": 0.0}
    )
    sent: list[tuple[Vector, bool]] = []
    for number in range(12):
        learner.train(number)
        values = floats(learner.release(number))
        sent.append((values, learner.privacy["sent_again"]))
        mix(learner, {}, {0: 1.0})
    last = max(at for at, (_, again) in enumerate(sent) if not again)
    assert 0 < last < 10
    for values, _ in sent[last + 1 :]:
        assert not values[:COUNT].any()
        assert np.array_equal(values[COUNT:], sent[last][0][COUNT:])


@pytest.mark.parametrize(
    ("algorithm", "options", "looks", "vectors"),
    [
        ("scaffold", {}, 1, 2), ("fedavg-ls", {}, 1, 1), ("fedopt", {}, 1, 2), ("fedlada", {}, 1, 3),
        ("fafed", {}, 2, 3), ("fafed", {"corrected": False}, 1, 3), ("fedadamw", {}, 1, 2), ("localadamw", {}, 1, 1),
    ],
)  # fmt: skip
def test_what_a_step_is_charged_and_a_message_has(
    algorithm: str, options: dict[str, Any], looks: int, vectors: int, tmp_path: Path
) -> None:
    """As one of DP-SGD, and two gradients on one batch as one with less noise; vectors as long as the body."""
    learner = sampled(task(0, ("head",)), tmp_path, algorithm, rate=0.5, noise=2.0, units=20, options=options)
    learner.train(0)
    assert len(floats(learner.release(0))) // BODY == vectors
    expected = total_epsilon([Charge(0.5, 2.0 / math.sqrt(looks), 2)], 1e-5)
    assert learner.privacy["epsilon"] == pytest.approx(expected, rel=1e-3)


# Laplacian smoothing against the equation that it solves.


@pytest.mark.parametrize("count", [1, 2, 3, 8, 997])
def test_smoothing_solves_the_ring(count: int) -> None:
    values = torch.tensor(np.random.default_rng(count).normal(size=count), dtype=torch.float32)
    found = smoothed(values, 1.5).double()
    around = torch.roll(found, 1) + torch.roll(found, -1) - 2 * found
    torch.testing.assert_close(found - 1.5 * around, values.double(), rtol=0, atol=1e-5)
    assert torch.equal(smoothed(values, 0.0), values)
