"""Models that cannot be built of the data, or with the options, that are given."""

from typing import Any

import pytest
import torch
from torch import nn

from dpeer.exceptions import ConfigurationError, TaskError
from dpeer.training import Choices
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.text import BYTES
from dpeer.training.models import build_model, last_linear
from dpeer.training.tasks.pooled import pooled_task
from tests.error_texts import refused


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
        ({"model_options": {"heads": 5}}, "--model-option heads=5 width=64"),
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
