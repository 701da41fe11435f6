"""The control variates of SCAFFOLD: what is tracked of them, and what they are good for."""

from collections.abc import Callable

import numpy as np
import pytest

from dpeer.training import TorchLearner
from tests.training.linear import BODY, FULL, RING, SIZE, Vector, begin, gradient, models, peers

Gossip = Callable[..., None]


def means(learners: list[TorchLearner]) -> tuple[Vector, Vector]:
    """Over the peers: of what is tracked, and of their own variates."""
    tracked = [ours.trainer.extras["variates"].double().numpy() for ours in learners]
    own = [ours.algorithm.own.double().numpy() for ours in learners]
    return np.mean(tracked, axis=0), np.mean(own, axis=0)


def test_the_mean_of_what_is_tracked_is_that_of_the_variates(gossip: Gossip) -> None:
    learners = peers("scaffold", momentum=0.5, weight_decay=0.1)
    for number in range(5):
        gossip(learners, 1, start=number)
        tracked, own = means(learners)
        np.testing.assert_allclose(tracked, own, rtol=0, atol=1e-6)
    assert np.abs(own).max() > 0.01


def test_with_momentum_the_variates_are_gradients_still(gossip: Gossip) -> None:
    """The quotient of option II would be as many times as long as momentum makes steps."""
    learners = peers("scaffold", momentum=0.9, body_lr=1e-7)
    gossip(learners, 2)
    for rank, ours in enumerate(learners):
        np.testing.assert_allclose(ours.algorithm.own.numpy(), gradient(begin(), rank)[:BODY], rtol=0, atol=1e-5)


def test_a_message_lost_in_one_direction_shifts_what_is_tracked_for_good(gossip: Gossip) -> None:
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


@pytest.mark.slow
def test_variates_take_out_what_is_peculiar_to_a_peer(gossip: Gossip) -> None:
    """With many local steps FedPer ends where the peers' own models are in balance, SCAFFOLD where gradients are."""
    left = {}
    for algorithm in ("fedper", "scaffold"):
        learners = peers(algorithm, (), local_steps=10, lr_decay=1.0, body_lr=0.2)
        gossip(learners, 15, weights=FULL)
        at = models(learners)[0]
        left[algorithm] = np.linalg.norm(np.mean([gradient(at, rank) for rank in range(SIZE)], axis=0))
    assert left["scaffold"] < left["fedper"] / 3
