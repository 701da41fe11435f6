from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from dpeer.exceptions import TaskError
from dpeer.training import Task, build_learner

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
        ({"groups": range(49)}, "groups are 49, and there are 50 training examples; there must be a number or a str"),
        ({"groups": []}, "groups are 0, and there are 50 training examples"),
        ({"groups": "p" * 50}, "groups are a str; there must be a number or a string for each"),
        ({"groups": 50}, "groups are a int; there must be"),
        ({"groups": np.zeros((50, 1))}, "groups have shape \\(50, 1\\) and type float64; there must be"),
        ({"groups": [1, "1"] * 25}, "groups have shape \\(50,\\) and type .*all alike"),
        ({"groups": [None] * 50}, "groups have shape \\(50,\\) and type object"),
        ({"groups": [[1], [1, 2]] * 25}, "groups cannot be read: ValueError.*there must be"),
        ({"groups": [b"1", "1"] * 25}, "groups have shape \\(50,\\) and type .*all alike"),
        ({"groups": [0.0] * 7 + [float("nan")] * 43}, "groups have nan for training example 7; there must be"),
        (
            {"groups": [0.5] * 7 + [2.0**53] * 43},
            "groups have 9007199254740992.0 for training example 7; .*int or str",
        ),
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
def test_groups_are_an_array_with_an_entry_for_each_training_example(
    make_task: Callable[..., Task], given: Any
) -> None:
    task = make_task(groups=given)
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
def test_no_name_makes_one_group_of_two_others(make_task: Callable[..., Task], names: list[Any]) -> None:
    task = make_task(groups=names * 2)
    assert len(set(task.groups[:25].tolist())) == 25
    assert task.groups[:25].tolist() == task.groups[25:].tolist()


def test_nobody_need_say_whose_examples_are(make_task: Callable[..., Task]) -> None:
    assert make_task().groups is None


class Gives(nn.Module):
    """A model of which something is made that it gives."""

    def __init__(self, made: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.body, self.fc, self.made = nn.Linear(6, 4), nn.Linear(4, 3), made

    def forward(self, x: torch.Tensor) -> Any:
        return self.made(self.fc(self.body(x)))


def failing(*_: Any) -> Any:
    raise ValueError("no\ngood")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": failing}, "loss failed on a training batch: ValueError: no good"),
        ({"loss": lambda o, t: o}, "loss gave a tensor of shape"),
        (
            {"loss": lambda o, t: torch.tensor(0.0)},
            "cannot be differentiated.*the loss does not follow from the outputs",
        ),
        ({"loss": lambda o, t: o.mean().item()}, r"loss gave a float; it must give a tensor.*leave out \.item\(\)"),
        (
            {"model": Gives(lambda o: {"logits": o})},
            "gives a dict of 'logits': .*one tensor, or the task's `loss` take",
        ),
        ({"model": Gives(lambda o: (o, o))}, "gives a tuple of 2: have forward return one tensor"),
        ({"model": Gives(lambda o: None)}, r"gives nothing: have forward return a tensor"),
        ({"model": Gives(lambda o: str(o))}, r"gives a str: have forward return a tensor"),
        ({"model": Gives(lambda o: o.to_sparse())}, r"gives a sparse coo tensor: have forward return a dense one"),
        ({"model": Gives(torch.Tensor.detach)}, r"follows from no parameter that is trained: leave torch\.no_grad\(\)"),
        ({"collate": failing}, "train data cannot be read: ValueError: no good"),
        ({"collate": lambda batch: 3}, "must give a pair"),
        ({"train": TensorDataset(torch.zeros(4, 5), torch.zeros(4))}, "model failed on a training batch: RuntimeError"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_fails_in_training_is_one_line(
    make_task: Callable[..., Task], changes: dict[str, Any], message: str
) -> None:
    learner = build_learner(make_task(**changes), "dfedmdc", rank=0, seed=0)
    with pytest.raises(TaskError, match=message) as caught:
        learner.train(0)
    assert "\n" not in str(caught.value)
