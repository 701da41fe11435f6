"""Per-example gradients of real transformers, trained whole and through low-rank adapters, equal those of a loop."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.privacy.mechanism import ClippedSum
from dpeer.training import Hyperparameters, Task, Trainer
from dpeer.training.dpsgd import separable_layers
from dpeer.training.dpsgd.gradient import TOGETHER, PrivateGradient
from dpeer.training.lora.adapting import adapted
from dpeer.training.models import build_model, last_linear
from dpeer.training.split import split
from dpeer.training.task import Recipe
from tests.thinning import only

from .conftest import BACKENDS, assert_those_of_a_loop

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def these_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of this file keep examples apart, as the library's do."""
    monkeypatch.setattr(separable_layers, "SOURCES", (*separable_layers.SOURCES, __name__))


N, SHORT = 6, 5
IMAGES, WORDS = "images", "words"


class Encoder(nn.Module):
    """torch's own encoder of one block on tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.places = nn.Parameter(torch.randn(1, SHORT, 16))
        self.block = nn.TransformerEncoderLayer(16, 2, 20, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.head(self.block(self.tokens(tokens) + self.places).mean(1))
        return out


def of_images(name: str) -> nn.Module:
    options: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2, "hidden": 20, "patch": 4}
    if name == "swin-tiny":
        options = {"layers": [2, 1], "width": 8, "heads": [2, 2], "window": 4, "patch": 1}
    return build_model(name, (1, 8, 8), 3, options)


def of_words(name: str) -> nn.Module:
    options = {"vocabulary": 11, "layers": 2, "width": 16, "heads": 2, "padding": 1}
    return build_model(name, (SHORT,), 3, options | ({"separator": 2} if name == "bert" else {}), tokens=True)


Build = Callable[[], nn.Module]

CASES: dict[str, tuple[Build, str, str | None, str]] = {
    "ViT": (partial(of_images, "vit-tiny"), IMAGES, None, "layers"),
    "ViT, adapters": (partial(of_images, "vit-tiny"), IMAGES, "r=2,alpha=4", "layers"),
    "ViT, adapters everywhere": (
        partial(of_images, "vit-tiny"), IMAGES, "r=2,targets=projection+q_proj+fc1", "layers",
    ),
    "Swin": (partial(of_images, "swin-tiny"), IMAGES, None, "vectorized"),
    "Swin, adapters": (partial(of_images, "swin-tiny"), IMAGES, "r=2", "layers"),
    "RoBERTa": (partial(of_words, "roberta"), WORDS, None, "layers"),
    "RoBERTa, adapters": (partial(of_words, "roberta"), WORDS, "r=2", "layers"),
    "BERT": (partial(of_words, "bert"), WORDS, None, "layers"),
    "torch's encoder": (Encoder, WORDS, None, "vectorized"),
    "torch's encoder, adapters": (Encoder, WORDS, "r=2", "vectorized"),
    "an embedding's adapters": (Encoder, WORDS, "r=2,targets=tokens", "vectorized"),
}  # fmt: skip


def setting(case: str) -> tuple[Trainer, Tensor, Tensor]:
    """The trainer of a model none of whose parameters is zero, and its data."""
    torch.manual_seed(0)
    build, kind, lora, _ = CASES[case]
    x = torch.randn(N, 1, 8, 8) if kind == IMAGES else torch.randint(3, 11, (N, SHORT))
    if kind == WORDS:
        x[:, 2], x[1::2, -1] = 2, 1  # the end of a text, and padding
    y = torch.randint(3, (N,))
    data = TensorDataset(x, y)
    model = build()
    head = last_linear(model)
    task = Task(model=model, head=(head,), train=data, test=data, built=Recipe(model, {"options": {"vocabulary": 11}}))
    if lora is not None:
        task = adapted(task, lora, 0)
    with torch.no_grad():
        for parameter in task.model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape)
    return Trainer(task, split(task.model, (head,), "model"), Hyperparameters(), rank=0, seed=0), x, y


@pytest.mark.parametrize(
    "case",
    only(["ViT", "ViT, adapters everywhere", "Swin", "RoBERTa", "BERT", "torch's encoder"], CASES),
)
def test_gradients_are_those_of_a_loop_and_the_backend_is_the_quickest(case: str) -> None:
    peer, x, y = setting(case)
    assert_those_of_a_loop(peer, x, y, CASES[case][3], 1e-3)
    rule = PrivateGradient(ClippedSum(1.0, 1.0, 0.5, 2 * TOGETHER))
    rule.start(peer, peer.model)
    assert rule.backends["model"] is BACKENDS[CASES[case][3]]
