from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Task, TorchLearner

DATA = TensorDataset(torch.zeros(4, 6), torch.zeros(4, dtype=torch.int64))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


class Broken:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        raise OSError("disk on fire")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": nn.Linear}, "model is the class Linear; it must be a torch.nn.Module"),
        ({"model": None}, "model is None"),
        ({"head": ("fc1",)}, "'fc1' matches no parameter.*did you mean 'fc'\\?.*body, fc"),
        ({"head": ("drop",)}, "'drop' matches no parameter"),
        ({"head": 3}, "head is 3; it must be a tuple"),
        ({"head": (nn.Linear(1, 1),)}, "must be a tuple of name prefixes"),
        ({"head": ("",)}, "must be a tuple of name prefixes"),
        ({"train": TensorDataset(torch.zeros(0, 6), torch.zeros(0))}, "train data is empty"),
        ({"test": []}, "test data is empty"),
        ({"test": None}, "test data is None"),
        ({"validation": []}, "validation data is empty"),
        ({"train": Stream()}, "train data is a Stream; it must be a map-style dataset"),
        ({"train": DataLoader(DATA)}, "DataLoader.*pass the DataLoader's dataset"),
        ({"train": TensorDataset(torch.zeros(3, 6))}, "is a tuple of 1; it must be a pair"),
        ({"train": torch.zeros(3, 6)}, "is a Tensor; it must be a pair"),
        ({"train": Broken()}, "train data cannot be read: OSError: disk on fire"),
        ({"loss": "mse"}, "loss is a str; it must be a function"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_refusals(make_task: Callable[..., Task], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message) as caught:
        make_task(**changes)
    assert "\n" not in str(caught.value)


def test_a_string_is_one_prefix(make_task: Callable[..., Task]) -> None:
    assert make_task(head="fc").head == ("fc",)
    assert make_task(head=["fc"]).head == ("fc",)


def failing(*_: Any) -> Any:
    raise ValueError("no\ngood")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": failing}, "loss failed on a training batch: ValueError: no good"),
        ({"loss": lambda o, t: o}, "loss gave a tensor of shape"),
        ({"loss": lambda o, t: torch.tensor(0.0)}, "cannot be differentiated"),
        ({"collate": failing}, "train data cannot be read: ValueError: no good"),
        ({"collate": lambda batch: 3}, "must give a pair"),
        ({"train": TensorDataset(torch.zeros(4, 5), torch.zeros(4))}, "model failed on a training batch: RuntimeError"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_fails_in_training_is_one_line(
    make_task: Callable[..., Task], changes: dict[str, Any], message: str
) -> None:
    learner = TorchLearner(make_task(**changes), "dfedmdc", rank=0, seed=0)
    with pytest.raises(TaskError, match=message) as caught:
        learner.train(0)
    assert "\n" not in str(caught.value)
