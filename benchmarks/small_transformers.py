"""Small transformers on random data, whole or with adapters, for `per_example.py`; needs dpeer[lora]."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Task
from dpeer.training.lora.adapting import adapted

LENGTH, WORDS, WIDTH, CLASSES = 64, 2000, 64, 10


class Scores(nn.Module):
    """A classifier of the library transformers, of whose outputs only the scores are given."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: Tensor) -> Tensor:
        """Class scores, shape (batch, classes)."""
        scores: Tensor = self.net(inputs).logits
        return scores


class Encoder(nn.Module):
    """torch's own encoder on tokens, which uses the weights of its attention without calling layers."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.zeros(1, LENGTH, WIDTH))
        block = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.blocks, self.classifier = nn.TransformerEncoder(block, 4), nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        """Class scores, shape (batch, classes)."""
        scores: Tensor = self.classifier(self.blocks(self.tokens(tokens) + self.places).mean(1))
        return scores


def _library() -> Any:
    return importlib.import_module("transformers")


def vit() -> nn.Module:
    """64 patches of images (3, 32, 32)."""
    library = _library()
    return Scores(
        library.ViTForImageClassification(
            library.ViTConfig(
                hidden_size=WIDTH, num_hidden_layers=4, num_attention_heads=4, intermediate_size=2 * WIDTH,
                image_size=32, patch_size=4, num_labels=CLASSES,
            )
        )
    )  # fmt: skip


def swin() -> nn.Module:
    """Windows of 16 of 256 patches of images (3, 32, 32); a table of position biases in each block."""
    library = _library()
    return Scores(
        library.SwinForImageClassification(
            library.SwinConfig(
                image_size=32, patch_size=2, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4,
                mlp_ratio=2.0, drop_path_rate=0.0, num_labels=CLASSES,
            )
        )
    )  # fmt: skip


def roberta() -> nn.Module:
    """64 tokens of 2,000 words."""
    library = _library()
    return Scores(
        library.RobertaForSequenceClassification(
            library.RobertaConfig(
                vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=4, num_attention_heads=4,
                intermediate_size=2 * WIDTH, max_position_embeddings=LENGTH + 2, hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0, num_labels=CLASSES,
            )
        )
    )  # fmt: skip


BUILD: Mapping[str, Callable[[], nn.Module]] = {
    "vit": vit,
    "swin": swin,
    "roberta": roberta,
    "torch's encoder": Encoder,
}
ADAPTED = " with r=4"
NAMES = tuple(name + ending for name in BUILD for ending in ("", ADAPTED))
"""Each is trained whole, and through adapters of the default layers."""


def task(name: str, samples: int) -> Task:
    """One of `NAMES` on random data of ten classes; the head is the last linear layer."""
    torch.manual_seed(0)
    kind = name.removesuffix(ADAPTED)
    images = kind in ("vit", "swin")
    inputs = torch.rand(samples, 3, 32, 32) if images else torch.randint(2, WORDS, (samples, LENGTH))
    data = TensorDataset(inputs, torch.randint(CLASSES, (samples,)))
    model = BUILD[kind]()
    head = "classifier" if kind == "torch's encoder" else "net.classifier"
    made = Task(model=model, head=(head,), train=data, test=data, draws=False)
    return adapted(made, "r=4", 0) if name.endswith(ADAPTED) else made
