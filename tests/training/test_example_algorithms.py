"""The examples `outer_steps.py` and `slow_body.py`: DiLoCo of torch on a full graph, pseudo-code in numpy on a ring."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpeer.training import TorchLearner, build_learner
from tests.training.dp_learners import client
from tests.training.linear import (
    BODY,
    COUNT,
    DECAY,
    RING,
    SIZE,
    STEPS,
    Vector,
    begin,
    gradient,
    models,
    peers,
    task,
)
from tests.training.small import floats

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = f"{EXAMPLES}/outer_steps.py:OuterSteps"
ROUNDS, LR = 6, 0.1
Matrix = NDArray[np.float64]


def sgd(x: Vector, rank: int, number: int) -> Vector:
    for _ in range(STEPS):
        x = x - LR * DECAY**number * gradient(x, rank)
    return x


def weigh(matrix: Matrix, rank: int) -> Any:
    return lambda ranks: {other: float(matrix[rank, other]) for other in sorted({*ranks, rank})}


def play(learners: list[TorchLearner], matrix: Matrix = RING, numbers: range = range(ROUNDS)) -> None:
    """The round loop, by hand."""
    for number in numbers:
        sent = {}
        for rank, ours in enumerate(learners):
            ours.train(number)
            sent[rank] = ours.release(number)
        for rank, ours in enumerate(learners):
            near = [int(other) for other in np.flatnonzero(matrix[rank]) if other != rank]
            assert ours.mix_sound({other: sent[other] for other in near}, weigh(matrix, rank)) == {}


def gossip(matrix: Matrix, lr: float, momentum: float) -> Matrix:
    """The bodies of all peers after the pseudo-code's rounds, in float64, by rank."""
    b, u = np.stack([begin()] * SIZE), np.zeros((SIZE, COUNT))
    for number in range(ROUNDS):
        g = b - matrix @ np.stack([sgd(b[rank], rank, number) for rank in range(SIZE)])
        u = momentum * u + g
        b = b - lr * (g + momentum * u)
    return b


def stepped(lr: float = 0.7, momentum: float = 0.9, **more: Any) -> list[TorchLearner]:
    return peers(EXAMPLE, options={"outer_lr": lr, "outer_momentum": momentum}, **more)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_bodies_follow_the_pseudo_code_on_a_ring(momentum: float) -> None:
    learners = stepped(0.7, momentum)
    play(learners)
    np.testing.assert_allclose(models(learners), gossip(RING, 0.7, momentum), rtol=0, atol=2e-5)


def test_private_updates_count_from_what_the_outer_step_left(tmp_path: Path) -> None:
    h = stepped()[0].trainer.hyperparameters
    ours = build_learner(task(0, ()), EXAMPLE, h, rank=0, seed=0, session=client(tmp_path, 1e-7, 0.01))
    base, velocity = begin(), np.zeros(COUNT)
    for number in range(3):
        ours.train(number)
        change = ours.body.double().numpy() - base
        assert np.linalg.norm(change) > 0.01
        sent = floats(ours.release(number))
        np.testing.assert_allclose(sent, base + change * 0.01 / np.linalg.norm(change), rtol=0, atol=1e-5)
        ours.mix_sound({}, weigh(np.eye(SIZE), 0))
        g = base - sent
        velocity = 0.9 * velocity + g
        np.testing.assert_allclose(ours.body, base - 0.7 * (g + 0.9 * velocity), rtol=0, atol=1e-5)
        base = ours.body.double().numpy()


@pytest.mark.parametrize("keep", [0.8, 0.0])
def test_the_slow_body_follows_the_pseudo_code_and_predicts(keep: float) -> None:
    where, epochs = f"{EXAMPLES}/slow_body.py:SlowBody", {"head_epochs": 1, "body_epochs": 1}
    learners = peers(where, ("head",), options={"keep": keep}, head_lr=LR, **epochs)
    x, slow = np.stack([begin()] * SIZE), np.stack([begin()[:BODY]] * SIZE)
    for number in range(3):
        for rank in range(SIZE):
            for part in (slice(BODY, None), slice(BODY)):
                for _ in range(STEPS):
                    x[rank, part] -= LR * DECAY**number * gradient(x[rank], rank)[part]
        slow = RING @ (keep * slow + (1 - keep) * x[:, :BODY])
        x[:, :BODY] = RING @ x[:, :BODY]
    play(learners, numbers=range(3))
    for rank, ours in enumerate(learners):
        expected = np.concatenate([slow[rank], x[rank, BODY:]])
        np.testing.assert_allclose(ours.finishing.predicting(), expected, rtol=0, atol=2e-5)
