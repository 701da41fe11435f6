"""Models of a user's own on the data of a built-in task, and models that cannot be built."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.federation.fingerprint import of_model
from dpeer.training import Choices, Task, load_task
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.text import BYTES
from dpeer.training.local_baseline import independent_copy
from dpeer.training.models import build_model, last_linear
from dpeer.training.tasks.pooled import pooled_task
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
    assert task.built["model"] == "digits"
    other = replace(task, model=nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), head=())
    assert (other.built, other.draws) == (None, None)
    assert independent_copy(task).built == replace(task, head=()).built == task.built


@pytest.mark.parametrize(
    ("name", "shape", "options", "fragment"),
    [
        ("resnet18gn", (3, 32, 32), {}, "unknown model 'resnet18gn': did you mean 'resnet18-gn'?"),
        ("roberta", (1, 8, 8), {}, "--model roberta takes texts as token numbers (length,)"),
        ("mlp", (3,), {"wdth": 8}, "unknown option of mlp 'wdth' in --model-option: did you mean 'width'?"),
        ("mlp", (3,), {"width": 8.5}, "--model-option width=8.5"),
        ("mlp", (3,), {"width": True}, "--model-option width=True"),
        ("vit-tiny", (1, 8, 8), {"patch": 3}, "--model-option patch=3: 8 x 8 pixels"),
        ("vit-tiny", (1, 8, 8), {"layers": [2, 2]}, "--model-option layers=[2, 2]"),
        ("swin-tiny", (1, 8, 8), {"layers": [2, 2]}, "--model-option layers=[2, 2], heads=[3, 6, 12, 24]"),
        ("swin-tiny", (1, 8, 8), {"heads": [3, 6, 12, 25]}, "--model-option heads: 25 heads"),
        ("swin-tiny", (1, 8, 8), {"patch": 2}, "--model-option layers=[2, 2, 6, 2]: 4 stages"),
    ],
)
def test_a_model_that_cannot_be_built(name: str, shape: Any, options: dict[str, Any], fragment: str) -> None:
    with refused(ConfigurationError, fragment):
        build_model(name, shape, 10, options)


def test_tokens_for_numbers_and_a_model_without_a_head() -> None:
    with refused(TaskError, "--model mlp takes numbers"):
        build_model("mlp", (16,), 2, tokens=True)
    with refused(TaskError, "name the head with --head"):
        last_linear(nn.Conv2d(3, 8, 3))


@pytest.mark.parametrize(
    ("choices", "fragment"),
    [
        ({"model_options": {"vocabulary": 99}}, "--model-option vocabulary=99"),
        ({"model_options": {"padding": 0}}, "--model-option padding=0"),
        ({"model_options": {"heads": 5}}, "--model-option heads: 5 heads cannot divide 64 features"),
        ({"model_options": {"positions": 12}}, "--model-option positions=12"),
        ({"standardize": True}, "--standardize scales numbers"),
        ({"augment": True, "model": "mlp"}, "--augment crops and flips images"),
    ],
)
def test_what_a_task_of_texts_cannot_have(choices: dict[str, Any], fragment: str) -> None:
    numbers = torch.randint(3, 259, (40, 12), generator=torch.Generator().manual_seed(0)).int()
    tokens = None if "augment" in choices else BYTES
    data = Data(Pool(numbers if tokens else numbers.float(), torch.arange(40) % 2), None, 2, tokens=tokens)
    with refused(TaskError, fragment):
        pooled_task(data, 0, 1, 0, Choices(partition="own", **choices), model="roberta-tiny")
