"""Validation data for a task of one's own that brings none."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from dpeer.training import Task
from dpeer.training.loading import with_validation

SHARE = 0.2


def rows(count: int, first: int = 0) -> TensorDataset:
    """Samples whose only feature is their number."""
    return TensorDataset(torch.arange(first, first + count).float().unsqueeze(1), torch.arange(count) % 2)


def made(train: Any, **values: Any) -> Task:
    return Task(model=nn.Linear(1, 2), head=(), train=train, test=rows(4), **values)


def held(task: Task, *, share: float = SHARE, seed: int = 0, rank: int = 0, optional: bool = False) -> Task:
    return with_validation(task, share, seed, rank, only_if_enough=optional)


def numbers(dataset: Any) -> list[int]:
    return [int(dataset[place][0]) for place in range(len(dataset))]


class Own(Dataset):
    """The same samples, made by code."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return torch.tensor([float(place)]), place % 2


@pytest.mark.parametrize("kind", [rows, Own])
def test_about_the_share_is_held_out_and_nothing_is_lost(kind: Any) -> None:
    task = held(made(kind(500)))
    assert len(task.validation) == pytest.approx(100, abs=30)
    assert sorted(numbers(task.train) + numbers(task.validation)) == list(range(500))
    assert {name: places.tolist() for name, places in task.indices.items()} == {
        "train": numbers(task.train), "validation": numbers(task.validation),
    }, "for partition.json"  # fmt: skip
    assert numbers(task.validation) == numbers(held(made(kind(500))).validation), "not by chance"
    assert numbers(task.validation) != numbers(held(made(kind(500)), seed=1).validation)
    assert numbers(task.validation) != numbers(held(made(kind(500)), rank=1).validation)


def test_a_sample_more_moves_no_other() -> None:
    few, more = held(made(rows(300))), held(made(rows(301, first=-1)))
    assert [one for one in numbers(more.validation) if one >= 0] == numbers(few.validation)


def test_a_group_is_not_parted_and_stays_beside_its_samples() -> None:
    groups = [f"patient {number // 5}" for number in range(300)]
    task = held(made(rows(300), groups=groups))
    assert {number // 5 for number in numbers(task.train)}.isdisjoint(
        number // 5 for number in numbers(task.validation)
    )
    assert task.groups.tolist() == [groups[number] for number in numbers(task.train)]


def test_a_task_that_brings_validation_data_keeps_them() -> None:
    task = made(rows(300), validation=rows(7))
    assert held(task) is task


@pytest.mark.parametrize(
    "task",
    [
        made(rows(20)),
        made(rows(300), groups=[number // 150 for number in range(300)]),
    ],
    ids=["too few", "half of them are one group"],
)
def test_nothing_is_held_out_by_default_where_that_is_not_enough_or_too_much(task: Task) -> None:
    for seed in range(30):
        assert held(task, seed=seed, optional=True) is task
