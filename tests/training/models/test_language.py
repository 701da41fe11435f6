"""Models for text, held against what the library gives when it is called as everybody calls it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dpeer.training import Choices, Task
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.text import BYTES
from dpeer.training.models import MODELS, build_model, last_linear
from dpeer.training.tasks.pooled import pooled_task

pytestmark = pytest.mark.slow

transformers = pytest.importorskip("transformers")

LENGTH = 12
SMALL: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2}
TEXT = {name: model for name, model in MODELS.items() if model.takes == "text"}


def numbers() -> Tensor:
    """Pairs of texts of every length, padded with 1, each of them ended by 2."""
    rng = np.random.default_rng(0)
    found = np.ones((8, LENGTH), np.int64)
    for row, length in zip(found, range(5, 13), strict=True):
        row[:length] = rng.integers(3, 259, length)
        row[[0, length // 2, length - 1]] = 0, 2, 2
    return torch.from_numpy(found)


def small(name: str, outputs: int = 3, **options: Any) -> Any:
    given = {"vocabulary": 259, "padding": 1, "separator": 2} | SMALL | options
    takes = MODELS[name].options()
    torch.manual_seed(0)
    return build_model(name, (LENGTH,), outputs, {k: v for k, v in given.items() if k in takes}, tokens=True).eval()


@pytest.mark.parametrize("name", ["roberta", "bert"])
def test_an_encoder_is_the_librarys(name: str) -> None:
    ours, inputs = small(name), numbers()
    library = getattr(transformers, f"{name.capitalize()}ForSequenceClassification")
    theirs = library(ours.get_submodule(name).config).eval()
    theirs.load_state_dict(ours.state_dict())
    types = torch.zeros_like(inputs)
    if name == "bert":
        for row, kinds in zip(inputs, types, strict=True):
            first, last = torch.nonzero(row == 2).flatten().tolist()
            kinds[first + 1 : last + 1] = 1
    with torch.no_grad():
        expected = theirs(inputs, attention_mask=(inputs != 1).long(), token_type_ids=types).logits
        torch.testing.assert_close(ours(inputs), expected)


@pytest.mark.parametrize(
    ("name", "outputs", "options", "parameters", "head"),
    [
        # As the library counts them for roberta-base and bert-base-uncased.
        ("roberta", 2, {"vocabulary": 50265, "positions": 514}, 124_647_170, 1_538),
        ("bert", 2, {"vocabulary": 30522, "positions": 512}, 109_483_778, 1_538),
    ],
)
def test_the_published_numbers_of_parameters(
    name: str, outputs: int, options: dict[str, int], parameters: int, head: int
) -> None:
    with torch.device("meta"):
        model = build_model(name, (128,), outputs, options, tokens=True)
    assert sum(one.numel() for one in model.parameters()) == parameters
    assert sum(one.numel() for one in model.get_submodule(last_linear(model)).parameters()) == head


def pooled(inputs: Tensor, **choices: Any) -> Task:
    pool = Pool(inputs.int().repeat(4, 1), torch.arange(4 * len(inputs)) % 2)
    data = Data(pool, None, 2, tokens=BYTES)
    return pooled_task(data, 0, 1, 0, Choices(partition="own", **choices), model="roberta-tiny")


def test_the_tokenizer_gives_vocabulary_and_padding() -> None:
    task = pooled(numbers())
    assert (task.model.roberta.config.vocab_size, task.model.padding) == (259, 1)
    assert task.built["options"]["vocabulary"] == 259
    wide = pooled(numbers(), model_options={"vocabulary": 300, "width": 8, "heads": 2})
    assert wide.model.roberta.config.vocab_size == 300
    assert pooled(numbers(), model="bert", model_options={"layers": 1, "width": 8}).model.separator == 2
