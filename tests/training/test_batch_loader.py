"""Batch loader: order by epoch, subsets, structured inputs, and `Task.augment`."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import Generator, SeedSequence, default_rng
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from dpeer.training import ALGORITHMS, Hyperparameters, Task, TorchLearner, build_learner
from dpeer.training.batch_loader import Batches, batch_order
from dpeer.training.randomness import Purpose
from tests.training.small import Rows, small_task

PAIRS = TensorDataset(torch.arange(10.0).view(10, 1), torch.arange(10))


@pytest.mark.parametrize(
    "dataset", [PAIRS, Rows(PAIRS), Subset(Subset(PAIRS, range(10)), list(range(10))), Rows(Subset(PAIRS, range(10)))]
)
def test_gathering_equals_collating(dataset: Any) -> None:
    inputs, targets = Batches("train", dataset, None).take(torch.tensor([3, 1, 7]))
    assert inputs.tolist() == [[3.0], [1.0], [7.0]]
    assert targets.tolist() == [3, 1, 7]


def test_a_subset_of_a_subset_and_negative_indices_pick_the_right_rows() -> None:
    nested = Subset(Subset(PAIRS, [9, 8, 7, -4]), [1, -1])
    assert Batches("train", nested, None).take(torch.tensor([0, 1]))[1].tolist() == [8, 6]


def test_a_derived_tensor_dataset_keeps_its_own_items() -> None:
    class Negated(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            x, y = super().__getitem__(index)
            return -x, y

    inputs, _ = Batches("train", Negated(*PAIRS.tensors), None).take(torch.tensor([2]))
    assert inputs.tolist() == [[-2.0]]


# `Task.augment`: what it is called with, when, and what it must not do.


SEED, RANK = 3, 2
PHASES = {"head": 0, "body": 1, "model": 2, "personal": 3, "screen": 5}


def noise(inputs: Tensor, generator: Generator) -> Tensor:
    return inputs + torch.from_numpy(generator.normal(size=tuple(inputs.shape)).astype(np.float32))


def learner(task: Task, algorithm: str, **changes: Any) -> TorchLearner:
    settings: dict[str, Any] = {"body_epochs": 2, "batch_size": 16, "rounds": 4}
    return build_learner(task, algorithm, Hyperparameters(**settings | changes, grad_clip=None), rank=RANK, seed=SEED)


def expected(task: Task, phase: Any, number: int, epochs: int) -> list[Tensor]:
    """The augmented minibatches of a phase, from the definition."""
    inputs = task.train.tensors[0]
    found = []
    for epoch in range(epochs):
        key = (Purpose.AUGMENT, RANK, number, PHASES[phase], epoch)
        generator = default_rng(SeedSequence(SEED, spawn_key=key))
        for rows in batch_order(len(inputs), SEED, RANK, number, phase, epoch).split(16):
            found.append(noise(inputs[rows], generator))  # noqa: PERF401
    return found


def test_each_epoch_has_numbers_of_its_own_whatever_the_global_generators_say() -> None:
    task = small_task(augment=noise)
    seen: list[Tensor] = []
    ours = learner(task, "dfedmdc", head_epochs=1)
    task.model.register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))
    for number in range(2):
        seen.clear()
        torch.manual_seed(99)
        ours.train(number)
        wanted = expected(task, "head", number, 1) + expected(task, "body", number, 2)
        assert len(seen) == len(wanted) == 12
        assert all(map(torch.equal, seen, wanted))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_augments_what_it_trains_on_and_nothing_else(algorithm: str) -> None:
    calls: list[bool] = []
    task = small_task()

    def augment(inputs: Tensor, generator: Generator) -> Tensor:
        calls.append(task.model.training)
        return inputs

    task.augment = augment
    ours, plain = learner(task, algorithm), learner(small_task(), algorithm)
    for one in (ours, plain):
        one.train(0)
    assert calls
    assert torch.equal(ours.trainer.model.data, plain.trainer.model.data)  # it changed nothing
    calls.clear()
    assert ours.evaluate() == plain.evaluate()
    assert not calls
