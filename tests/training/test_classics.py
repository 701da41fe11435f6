"""SCAFFOLD, FedAvg-LS, FedOpt, FAFED and FedLADA against numpy: three rounds on a ring, other data on each peer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

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
)

Gossip = Callable[..., None]
ROUNDS = 3


def mixed(weights: NDArray[Any], vectors: list[Vector], shared: int) -> list[Vector]:
    """What begins each vector is averaged, the rest is each peer's own."""
    sent = np.stack(vectors)[:, :shared]
    return [np.concatenate([row @ sent, own[shared:]]) for row, own in zip(weights, vectors, strict=True)]


def zeros() -> list[Vector]:
    return [np.zeros(COUNT) for _ in range(SIZE)]


Rounds = Callable[[NDArray[Any], int, float], list[Vector]]


def scaffold(weights: NDArray[Any], shared: int, lr: float) -> list[Vector]:
    """With the paper's option II, by the way that the model went."""
    x, own, tracked = [begin() for _ in range(SIZE)], zeros(), zeros()
    for number in range(ROUNDS):
        rate, after = lr * DECAY**number, []
        for i in range(SIZE):
            y = x[i].copy()
            for _ in range(STEPS):
                y = y - rate * (gradient(y, i) - own[i] + tracked[i])
            new = own[i] - tracked[i] + (x[i] - y) / (STEPS * rate)
            new[shared:] = 0
            tracked[i], own[i] = tracked[i] + new - own[i], new
            after.append(y)
        x, tracked = mixed(weights, after, shared), mixed(weights, tracked, shared)
    return x


def fedavg_ls(weights: NDArray[Any], shared: int, lr: float, strength: float = 1.0) -> list[Vector]:
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
    for number in range(ROUNDS):
        after = []
        for i in range(SIZE):
            y = x[i].copy()
            for _ in range(STEPS):
                y = y - lr * DECAY**number * gradient(y, i)
            after.append(y)
        y_mixed = mixed(weights, after, shared)
        x = [was + inverse @ (now - was) for was, now in zip(x, y_mixed, strict=True)]
    return x


def fedopt(weights: NDArray[Any], shared: int, lr: float, yogi: bool = False) -> list[Vector]:
    x, mean, squares = [begin() for _ in range(SIZE)], zeros(), [np.full(COUNT, 1e-6) for _ in range(SIZE)]
    for number in range(ROUNDS):
        changes = []
        for i in range(SIZE):
            y = x[i].copy()
            for _ in range(STEPS):
                y = y - lr * DECAY**number * gradient(y, i)
            changes.append(y - x[i])
        x, changes = mixed(weights, x, shared), mixed(weights, changes, shared)
        for i, change in enumerate(changes):
            mean[i] = 0.9 * mean[i] + 0.1 * change
            if yogi:
                squares[i] = squares[i] - 0.01 * change**2 * np.sign(squares[i] - change**2)
            else:
                squares[i] = 0.99 * squares[i] + 0.01 * change**2
            step = 0.01 * mean[i] / (np.sqrt(squares[i]) + 1e-3)
            x[i] = x[i] + np.where(np.arange(COUNT) < shared, step, change)
    return x


def fafed(weights: NDArray[Any], shared: int, lr: float, corrected: bool = True) -> list[Vector]:
    x, mean, squares = [begin() for _ in range(SIZE)], zeros(), zeros()
    for number in range(ROUNDS):
        for i in range(SIZE):
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
        x, mean, squares = (mixed(weights, vectors, shared) for vectors in (x, mean, squares))
    return x


def fedlada(weights: NDArray[Any], shared: int, lr: float) -> list[Vector]:
    """With the paper's direction, by the way that the model went without the decay."""
    x, squares, direction = [begin() for _ in range(SIZE)], zeros(), zeros()
    for number in range(ROUNDS):
        rate = lr * DECAY**number
        for i in range(SIZE):
            mean, second = np.zeros(COUNT), np.maximum(squares[i], 1e-16)
            largest, way = second, np.zeros(COUNT)
            for _ in range(STEPS):
                g = gradient(x[i], i)
                mean, second = 0.9 * mean + 0.1 * g, 0.99 * second + 0.01 * g**2
                largest = np.maximum(largest, second)
                moved = rate * (0.1 * mean / np.sqrt(largest) + 0.9 * direction[i])
                x[i], way = (1 - rate * 0.1) * x[i] - moved, way + moved
            squares[i], direction[i] = largest, way / (STEPS * rate)
        x, squares, direction = (mixed(weights, vectors, shared) for vectors in (x, squares, direction))
    return x


CASES: dict[str, tuple[str, Rounds, dict[str, Any], dict[str, Any]]] = {
    "scaffold": ("scaffold", scaffold, {}, {}),
    "fedavg-ls": ("fedavg-ls", fedavg_ls, {}, {}),
    "fedavg-ls 3": ("fedavg-ls", lambda w, s, lr: fedavg_ls(w, s, lr, 3.0), {"smoothing": 3.0}, {}),
    "fedopt": ("fedopt", fedopt, {}, {}),
    "fedopt yogi": ("fedopt", lambda w, s, lr: fedopt(w, s, lr, True), {"server_optimizer": "yogi"}, {}),
    "fafed": ("fafed", fafed, {}, {"body_lr": 0.02, "weight_decay": 0.1}),
    "fafed adam": (
        "fafed",
        lambda w, s, lr: fafed(w, s, lr, False),
        {"corrected": False},
        {"body_lr": 0.02, "weight_decay": 0.1},
    ),
    "fedlada": ("fedlada", fedlada, {}, {"body_lr": 0.02, "weight_decay": 0.1, "momentum": 0.9}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("weights", "head"), [(RING, ("head",)), (FULL, ())], ids=["ring, head", "full, all"])
@pytest.mark.parametrize("case", CASES)
def test_three_rounds_are_those_of_the_formulas(
    case: str, head: tuple[str, ...], weights: NDArray[Any], gossip: Gossip
) -> None:
    algorithm, rounds, options, more = CASES[case]
    learners = peers(algorithm, head, options=options, **more)
    gossip(learners, ROUNDS, weights=weights)
    expected = rounds(weights, BODY if head else COUNT, more.get("body_lr", 0.1))
    found = models(learners)
    assert max(np.abs(ours - begin()).max() for ours in found) > 0.02
    for ours, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, right, rtol=0, atol=2e-5)
    if not head and weights is FULL:
        assert np.ptp(np.stack(found), axis=0).max() < 1e-5, "one model for all, as with a server"
