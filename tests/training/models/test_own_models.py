"""A model of a user's own on the data of a built-in task: by `--model FILE.py:CLASS`, or in place of the task's."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dpeer.exceptions import ConfigurationError
from dpeer.federation.fingerprint import of_model
from dpeer.training import Choices, Task, load_task
from dpeer.training.local_baseline import independent_copy
from dpeer.training.models import build_model
from tests.error_texts import refused

MINE = """
import math
import torch
from torch import nn

torch.rand(7)  # importing it draws numbers

class Middle(nn.Module):
    def __init__(self, shape, outputs, *, width: int = 8, odd=None):
        super().__init__()
        self.front, self.middle = nn.Linear(math.prod(shape), width), nn.Linear(width, width)
        self.back = nn.Linear(width, outputs)

    def forward(self, x):
        return self.back(self.middle(self.front(x.flatten(1))))

class Alone(nn.Module):
    def __init__(self, classes=10):
        super().__init__()

def nothing(shape, outputs): return None

number = 3
"""


@pytest.fixture
def where(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return f"{tmp_path}/mine.py"


def digits(where: str, rank: int = 0, **options: Any) -> Task:
    choices = Choices(model=f"{where}:Middle", head="middle", model_options=options)
    return load_task("digits", rank, 3, 0, choices=choices)


def test_it_begins_alike_on_all_ranks_whoever_imports_its_file(where: str) -> None:
    tasks = [digits(where, rank, width=9) for rank in range(2)]
    one, other = (task.model.state_dict() for task in tasks)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert tasks[0].head == ("middle",)
    assert tasks[0].model.middle.weight.shape == (9, 9)
    assert tasks[0].draws is None, "its forward may draw"
    assert of_model(tasks[0]) == {"model option width": 9}
    assert load_task("digits", 0, 3, 0).draws is False


@pytest.mark.parametrize(
    ("name", "options", "fragment"),
    [
        ("Midle", {}, "has no 'Midle': did you mean 'Middle'?"),
        ("number", {}, "mine.py:number' is a int; it must be a class of torch.nn.Module"),
        ("nothing", {}, "mine.py:nothing' gave a NoneType; it must give a torch.nn.Module"),
        ("Alone", {}, "(it is called with (1, 8, 8), an input's shape, and 10 outputs)"),
        ("Middle", {"wdth": 9}, "'wdth' in --model-option: did you mean 'width'?"),
        ("Middle", {"width": 2.5}, "--model-option width=2.5: "),
    ],
)
def test_what_is_no_model_is_refused(name: str, options: dict[str, Any], fragment: str, where: str) -> None:
    with refused(ConfigurationError, fragment):
        build_model(f"{where}:{name}", (1, 8, 8), 10, options)
    with refused(ConfigurationError, "unknown model 'Middle': ", "FILE.py:CLASS"):
        build_model("Middle", (1, 8, 8), 10)


def test_a_recipe_is_of_the_model_that_was_made_by_it() -> None:
    task = load_task("digits", 0, 3, 0)
    assert task.built is not None
    assert task.built["model"] == "digits"
    other = replace(task, model=nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), head=())
    assert (other.built, other.draws) == (None, None)
    assert independent_copy(task).built == replace(task, head=()).built == task.built
