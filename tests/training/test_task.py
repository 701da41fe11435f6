"""Task: its checks of head, groups and data."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.training.small import small_task


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
    ],
    ids=lambda given: type(given).__name__,
)
def test_groups_are_an_array_with_an_entry_for_each_training_example(given: Any) -> None:
    task = small_task(groups=given)
    assert isinstance(task.groups, np.ndarray)
    assert task.groups.tolist() == [entry.item() if hasattr(entry, "item") else entry for entry in given]


@pytest.mark.parametrize(
    "names",
    [
        [2**63 + 2**40 + number for number in range(24)] + [-1],  # of which numpy makes floats
        [2**60 + number for number in range(24)] + [0.5],
        [2**70 + number for number in range(25)],
        ["p", "p\0", "p\0\0", *(f"p{number}" for number in range(22))],  # of whose ends numpy drops what is NUL
        [b"p", b"p\0", *(b"p%d" % number for number in range(23))],
    ],
    ids=["unsigned", "float", "huge", "NUL", "bytes"],
)
def test_no_name_makes_one_group_of_two_others(names: list[Any]) -> None:
    task = small_task(groups=names * 2)
    assert len(set(task.groups[:25].tolist())) == 25
    assert task.groups[:25].tolist() == task.groups[25:].tolist()
