"""What summaries say of a peer's classes."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Choices, Task, class_counts, load_task


def part(*targets: Any) -> TensorDataset:
    return TensorDataset(torch.zeros(len(targets), 4), torch.tensor(targets))


def made(model: nn.Module, **parts: TensorDataset) -> Task:
    return Task(model=model, head=(), **{"train": part(0, 1, 1), "test": part(0), **parts})


def test_peers_with_other_classes_have_lists_of_one_length() -> None:
    choices = Choices(partition="pathological:2", validation=0.2)
    tasks = [load_task("digits", rank, 8, 0, {}, choices) for rank in range(8)]
    for name in ("train", "validation", "test"):
        for task in tasks:
            counts = class_counts(task, name)
            assert counts is not None
            assert len(counts) == 10
            assert sum(counts) == len(getattr(task, name))


def test_the_last_linear_layer_says_how_many_classes_there_are() -> None:
    model = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 5))
    task = made(model)
    assert class_counts(task, "train") == [1, 2, 0, 0, 0]
    assert class_counts(task, "test") == [1, 0, 0, 0, 0]
    assert class_counts(task, "validation") is None


@pytest.mark.parametrize("model", [nn.Conv1d(1, 4, 4), nn.Sequential(nn.Conv1d(1, 4, 4), nn.Linear(1, 2))])
def test_without_one_that_fits_all_of_a_peers_data_do(model: nn.Module) -> None:
    task = made(model, validation=part(3, 3), test=part(-1, 0))
    assert class_counts(task, "train") == [1, 2, 0, 0]
    assert class_counts(task, "validation") == [0, 0, 0, 2]
    assert class_counts(task, "test") is None, "not every number is a class"


def test_values_are_no_classes() -> None:
    assert class_counts(made(nn.Linear(4, 3), train=part(0.0, 1.0)), "train") is None
