"""A task whose rounds take a given time, without work (--task-option seconds=0.5): for what happens to peers."""

from __future__ import annotations

import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

from dpeer.training import Task


def task(rank: int, size: int, seed: int, *, seconds: float = 0.5, parameters: int = 64) -> Task:
    """Eight rows and a linear model; each training step sleeps for half of a round's time.

    Args:
        rank: The peer.
        size: Unused.
        seed: Unused.
        seconds: What a round of one step of the head and one of the body takes.
        parameters: Inputs of the linear layer that is shared.
    """
    drawn = torch.Generator().manual_seed(rank)
    rows = TensorDataset(torch.randn(8, parameters, generator=drawn), torch.arange(8) % 2)
    model = nn.Sequential(nn.Linear(parameters, 4), nn.Linear(4, 2))

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        if outputs.requires_grad:
            time.sleep(seconds / 2)
        return nn.functional.cross_entropy(outputs, targets)

    return Task(model=model, head=("1",), train=rows, test=rows, loss=loss)
