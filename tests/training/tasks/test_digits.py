"""Task digits: its pools, and the gain of collaboration."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from dpeer.training import build_learner, load_task
from dpeer.training.data.digits import digits
from tests.training.small import gossip


def test_the_pools_are_scikit_learns_digits_a_fifth_of_each_for_testing() -> None:
    images, labels = load_digits(return_X_y=True)
    train, test = digits().train, digits().test
    assert test is not None
    assert (train.inputs.shape, test.inputs.shape) == ((1438, 1, 8, 8), (359, 1, 8, 8))
    pools = [np.column_stack([p.inputs.flatten(1).numpy() * 16, p.targets.numpy()]) for p in (train, test)]
    assert sorted(map(tuple, np.concatenate(pools))) == sorted(map(tuple, np.column_stack([images, labels])))
    share = torch.bincount(test.targets) / (torch.bincount(test.targets) + torch.bincount(train.targets))
    assert ((share - 0.2).abs() < 0.01).all()


@pytest.mark.slow
@pytest.mark.long
def test_collaboration_beats_training_alone() -> None:
    accuracy = {}
    for algorithm in ("local", "dfedmdc", "dfedsmdc"):
        learners = [build_learner(load_task("digits", rank, 8, 0), algorithm, rank=rank, seed=0) for rank in range(8)]
        gossip(learners, 8)
        accuracy[algorithm] = np.mean([learner.evaluate().accuracy for learner in learners])
    assert accuracy["dfedmdc"] >= 0.955, accuracy
    assert accuracy["dfedsmdc"] >= 0.955, accuracy
    assert min(accuracy["dfedmdc"], accuracy["dfedsmdc"]) > accuracy["local"], accuracy
