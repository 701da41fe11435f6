"""Tasks of files, modules and examples: how they are imported, and what they find."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from dpeer.exceptions import TaskError
from dpeer.training import Task, load_task
from tests.error_texts import refused

GOOD = """
    import numpy, random, torch
    from torch import nn
    from torch.utils.data import TensorDataset
    from dpeer.training import Task

    def task(rank, size, seed, *, classes=2):
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, classes))
        data = TensorDataset(torch.randn(5, 3), torch.zeros(5, dtype=torch.int64))
        made = Task(model=model, head=("1",), train=data, test=data)
        made.draws = [numpy.random.random(), random.random()]
        made.place = (rank, size, seed)
        return made
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def file(text: str, name: str = "my_task.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        return str(path)

    return file


def test_a_file(write: Write) -> None:
    spec = write(GOOD) + ":task"
    before = list(sys.path)
    a, b = load_task(spec, 0, 4, 3), load_task(spec, 1, 4, 3, {"classes": 2})
    assert (a.place, b.place) == ((0, 4, 3), (1, 4, 3))
    assert type(a) is Task
    assert [entry for entry in sys.path if entry in before] == before
    assert len(sys.path) == len(before) + 1, "last on the path, for imports inside functions"
    for p, q in zip(a.model.parameters(), b.model.parameters(), strict=True):
        assert torch.equal(p, q)
    assert a.draws == b.draws
    assert load_task(spec, 0, 4, 4).draws != a.draws
    assert load_task(spec, 0, 4, 3, {"classes": 7}).model[1].out_features == 7


def test_a_file_is_imported_once_and_finds_its_siblings(write: Write) -> None:
    write("count = 0", "dpeer_test_sibling.py")
    spec = write("import dpeer_test_sibling\ndpeer_test_sibling.count += 1\n" + dedent(GOOD)) + ":task"
    try:
        for rank in range(3):
            load_task(spec, rank, 3, 0)
        assert sys.modules["dpeer_test_sibling"].count == 1
    finally:
        sys.modules.pop("dpeer_test_sibling", None)


LEAVING = """
    import torch
    from torch import nn
    from torch.utils.data import TensorDataset
    from dpeer.training import Task

    def task(rank, size, seed):
        model, data = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), TensorDataset(torch.randn(5, 3), torch.arange(5))
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_grad_enabled(False)
        return Task(model=model, head=("1",), train=data, test=data)
"""


def test_a_task_finds_none_of_the_defaults_that_another_has_left(write: Write) -> None:
    spec = write(LEAVING)
    for rank in range(2):
        made = load_task(f"{spec}:task", rank, 2, 0)
        assert made.model[0].weight.dtype == torch.float32
        assert made.model[0].weight.device.type == "cpu"
        assert torch.get_default_dtype() == torch.float32
        assert torch.get_default_device().type == "cpu"
        assert torch.is_grad_enabled()


def test_a_failing_import_can_be_mended(write: Write) -> None:
    with pytest.raises(TaskError) as caught:
        load_task(write("1 / 0") + ":task", 0, 4, 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert type(load_task(write(GOOD) + ":task", 0, 2, 0)) is Task


# The example that newcomers copy.


@pytest.mark.parametrize(
    ("text", "options", "fragment"),
    [
        ("import math as task", {}, "mine.py:task' is a module, not a function"),
        ("def task(*_): ...", {}, "mine.py:task' returned a NoneType"),
        (
            "def task(rank, size, seed, *, k=2): ...",
            {"colour": 1},
            "task() got an unexpected keyword argument 'co",
        ),
        ("def task(rank, size, seed, data): ...", {}, "task() missing 1 required positional argument: 'data'"),
        ("def task(rank, size, seed): ...", {"rank": 1}, "task() got multiple values for argument 'rank'"),
    ],
)
def test_a_factory_that_makes_no_task(text: str, options: dict[str, int], fragment: str, write: Write) -> None:
    with refused(TaskError, "mine.py:task'", fragment):
        load_task(write(text, "mine.py") + ":task", 0, 4, 0, options)


def test_a_setting_is_no_option_of_a_task() -> None:
    with refused(TaskError, "task 'digits': 'partition' is not a task option; use --partition"):
        load_task("digits", 0, 4, 0, {"partition": "iid"})
