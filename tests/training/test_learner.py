"""Learner: the round loop's protocol, release and mixing, and divergence."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dpeer.exceptions import Interrupted
from dpeer.training import Hyperparameters, TorchLearner, build_learner
from tests.training.small import mix, small_task

H = Hyperparameters(body_epochs=2, batch_size=16)


def make(
    rank: int = 0, algorithm: str = "dfedmdc", h: Hyperparameters = H, keep: Any = "last", **task: Any
) -> TorchLearner:
    return build_learner(small_task(rank, **task), algorithm, h, rank=rank, seed=0, keep=keep)


# What travels.


def test_mix_sums_in_rank_order_with_the_own_released_body() -> None:
    rng = np.random.default_rng(0)
    others = {rank: rng.normal(size=56).astype(np.float32) for rank in (3, 0, 7)}
    row = {0: 0.1, 2: 0.3, 3: 0.25, 7: 0.35}
    learner = make(2)
    learner.train(0)
    (own,) = learner.release(0) or []
    learner.trainer.body.data.fill_(99.0)  # only what was released counts
    received = {rank: [memoryview(bytearray(values.tobytes()))] for rank, values in others.items()}
    mix(learner, received, row)

    expected = torch.zeros(56)
    for rank in sorted(row):
        z = np.frombuffer(own, "<f4") if rank == 2 else others[rank]
        expected.add_(torch.tensor(z), alpha=row[rank])
    assert torch.equal(learner.body, expected)
    exact = sum(row[r] * (np.frombuffer(own, "<f4") if r == 2 else others[r]).astype(np.float64) for r in row)
    np.testing.assert_allclose(learner.body.numpy(), exact, rtol=0, atol=1e-6)


# Training.


def test_interrupt_stops_between_two_minibatches() -> None:
    calls = 0

    def loss(outputs: Any, targets: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            learner.interrupt()
        return nn.functional.cross_entropy(outputs, targets)

    learner = build_learner(small_task(loss=loss), "dfedsmdc", H, rank=0, seed=0)
    with pytest.raises(Interrupted):
        learner.train(0)
    # 4 head steps, then one SAM step of two gradients: the step under way is finished, none is begun.
    assert calls == 6
    assert learner.trainer.body.data.isfinite().all()
    with pytest.raises(Interrupted):
        learner.train(0)


# Files.


def test_a_round_that_is_sat_out_can_be_the_one_whose_model_is_kept() -> None:
    """Where not every round is evaluated, the model of an earlier one may first be measured then."""
    learner = make(keep="best", validation=small_task().test)
    learner.train(0)
    learner.release(0)
    mix(learner, {}, {0: 1.0})
    learner.sit_out(1)
    learner.evaluate()
    assert learner.figures.best_round == 1


def test_a_model_finished_for_an_earlier_end_predicts_no_more() -> None:
    learner = make(algorithm="fedbabu", h=H.model_copy(update={"finish": "all:2"}))
    learner.train(0)
    shared = learner.evaluate()
    assert learner.fine_tune(0) != shared
    learner.sit_out(1)
    assert learner.evaluate() == shared
