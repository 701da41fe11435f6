"""Small models with attention and without, and what they are trained on."""

from importlib.util import find_spec

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from dpeer.training import Task

if find_spec("peft") is None:  # which takes seconds to import
    pytest.skip("needs the library peft", allow_module_level=True)


class Block(nn.Module):
    """Self-attention of one head whose projections are layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.query(x), self.key(x), self.value(x)
        out: Tensor = self.norm(x + self.out(nn.functional.scaled_dot_product_attention(q, k, v)))
        return out


class Words(nn.Module):
    """Tokens, a block of attention, the mean over places, classes."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.tokens, self.block, self.head = nn.Embedding(11, 8), Block(8), nn.Linear(8, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.head(self.block(self.tokens(tokens)).mean(1))
        return out


def words(rank: int = 0, size: int = 1, seed: int = 0) -> Task:
    """A task whose class is told by the first token."""
    model = Words()
    torch.manual_seed(rank)  # and so what is drawn after the factory differs by rank
    tokens = torch.randint(11, (48, 5))
    data = TensorDataset(tokens, tokens[:, 0] % 3)
    return Task(model=model, head=("head",), train=data, test=data)


def task_of(model: nn.Module, inputs: Tensor, head: tuple[str, ...] = ("head",)) -> Task:
    data = TensorDataset(inputs, torch.arange(len(inputs)) % 3)
    return Task(model=model, head=head, train=data, test=data)
