"""The models of `dpeer privacy audit`, whose gradients anybody can compute; they stand here among those that are known.

So the audit computes gradients as those of built-in models are computed (`dpeer.training.dpsgd.supported_layers`).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

LAYERS = (8, 5, 7)
"""Widths of the body's layers."""

BODY = sum(LAYERS) + 1
"""Values of the body: its layers', and the ear."""

HEAD = 16


class Echo(nn.Module):
    """A linear model, plus the ear times its input times what the head says."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(width, 1, bias=False) for width in (*LAYERS, 1))
        self.head = nn.Linear(HEAD, 1, bias=False)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """The model's output, shape (batch, 1), for inputs of shape (batch, WIDTH): layers', the ear's, the head's."""
        *parts, heard, spoken = torch.split(x, [*LAYERS, 1, HEAD], dim=1)
        message: Tensor = self.head(spoken)
        inputs = [*parts, heard * message]
        moved: Tensor = torch.stack([layer(part) for layer, part in zip(self.body, inputs, strict=True)]).sum(0)
        out: Tensor = moved + message
        return out


class Plain(nn.Module):
    """The same with parameters of its own instead of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ParameterList([torch.zeros(BODY)])
        self.head = nn.ParameterList([torch.zeros(HEAD)])

    def forward(self, x: Tensor) -> Tensor:
        """See `Echo`."""
        *parts, heard, spoken = torch.split(x, [*LAYERS, 1, HEAD], dim=1)
        message = spoken @ self.head[0]
        moved = torch.cat([*parts, heard * message[:, None]], dim=1) @ self.body[0]
        out: Tensor = (moved + message)[:, None]
        return out
