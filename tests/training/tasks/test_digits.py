from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from dpeer.training import build_learner, load_task
from dpeer.training.tasks.digits import digits


def test_the_pools_are_scikit_learns_digits() -> None:
    images, labels = load_digits(return_X_y=True)
    pools = [
        np.column_stack([p.inputs.flatten(1).numpy() * 16, p.targets.numpy()]) for p in (digits().train, digits().test)
    ]
    assert sorted(map(tuple, np.concatenate(pools))) == sorted(map(tuple, np.column_stack([images, labels])))


def test_pools() -> None:
    train, test = digits().train, digits().test
    assert train.inputs.shape == (1438, 1, 8, 8)
    assert test.inputs.shape == (359, 1, 8, 8)
    assert train.inputs.min() == 0
    assert train.inputs.max() == 1
    share = torch.bincount(test.targets) / (torch.bincount(test.targets) + torch.bincount(train.targets))
    assert ((share - 0.2).abs() < 0.01).all()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Two peers train at a time: more threads than one each would get into each other's way."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
def test_collaboration_beats_training_alone(gossip: Callable[..., None]) -> None:
    accuracy = {}
    for algorithm in ("local", "dfedmdc", "dfedsmdc"):
        learners = [build_learner(load_task("digits", rank, 8, 0), algorithm, rank=rank, seed=0) for rank in range(8)]
        gossip(learners, 8, workers=2)
        accuracy[algorithm] = np.mean([learner.evaluate().accuracy for learner in learners])
    assert accuracy["dfedmdc"] >= 0.955, accuracy
    assert accuracy["dfedsmdc"] >= 0.955, accuracy
    assert min(accuracy["dfedmdc"], accuracy["dfedsmdc"]) > accuracy["local"], accuracy
