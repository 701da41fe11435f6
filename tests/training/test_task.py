"""Task: its checks of head, groups and data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dpeer.exceptions import TaskError
from tests.error_texts import refused
from tests.training.small import SmallNet, small_task


def test_a_string_is_one_prefix() -> None:
    assert small_task(head="fc").head == ("fc",)
    assert small_task(head=["fc"]).head == ("fc",)


@pytest.mark.parametrize(
    "given",
    [
        [number // 2 for number in range(50)],
        tuple(f"patient {number // 2}" for number in range(50)),
        np.arange(50) // 2,
        torch.arange(50) // 2,
        np.array([f"patient {number // 2}" for number in range(50)], object),
    ],
    ids=lambda given: type(given).__name__,
)
def test_groups_are_an_array_with_an_entry_for_each_training_example(given: Any) -> None:
    task = small_task(groups=given)
    assert isinstance(task.groups, np.ndarray)
    assert task.groups.tolist() == [entry.item() if hasattr(entry, "item") else entry for entry in given]


def with_tensor(tensor: Callable[[], torch.Tensor]) -> Callable[[], nn.Module]:
    def model() -> nn.Module:
        made = SmallNet()
        made.register_buffer("more", tensor())
        return made

    return model


def inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(4)


@pytest.mark.parametrize(
    ("parts", "fragment"),
    [
        ({"model": nn.Linear}, "model is the class Linear"),
        ({"model": with_tensor(lambda: torch.eye(6).to_sparse())}, "buffer 'more' is a sparse coo tensor"),
        ({"model": with_tensor(inference)}, "buffer 'more' was made in inference mode"),
        ({"model": lambda: torch.compile(SmallNet(), backend="eager")}, "model is torch.compile(SmallNet)"),
        ({"head": 3}, "head is 3"),
        ({"head": ("",)}, "head is ('',)"),
        ({"train": TensorDataset(torch.zeros(0, 6), torch.zeros(0))}, "train data is empty"),
        ({"test": None}, "test data is None"),
        ({"train": DataLoader(small_task().train)}, "(pass the DataLoader's dataset)"),
        ({"train": TensorDataset(torch.zeros(3, 6))}, "train data is a tuple of 1"),
        ({"loss": "mse"}, "loss is a str"),
        ({"groups": range(49)}, "groups are 49 (int), its training examples 50"),
        ({"groups": 7}, "the task's groups cannot be read: TypeError"),
        ({"groups": "p" * 50}, "groups are 50 (str)"),
        ({"groups": np.zeros((50, 1))}, "groups are 50 (list)"),
        ({"groups": np.zeros(50)}, "groups are 50 (float)"),
        ({"groups": [1, "1"] * 25}, "groups are 50 (int, str)"),
        ({"groups": [2**63, -1] * 25}, "groups are 50 (int)"),
        ({"groups": [2**70] * 50}, "groups are 50 (int)"),
        ({"groups": ["p"] * 49 + [float("nan")]}, "groups are 50 (str, float)"),
    ],
)
def test_a_part_that_makes_no_task_is_named(parts: dict[str, Any], fragment: str) -> None:
    made = {name: part() if name == "model" and part is not nn.Linear else part for name, part in parts.items()}
    with refused(TaskError, fragment):
        small_task(**made)
