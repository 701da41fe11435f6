"""Small networks for series and tables: a 1-D CNN and an MLP."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn


class CNN1d(nn.Module):
    """Three strided convolutions over time with GroupNorm, the average over time, and a linear head.

    24,838 parameters for inputs (9, 128) and 6 classes, of which 390 are the head's; none depends on the length.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(shape[0], 32, 5, stride=2, padding=2),
            nn.GroupNorm(4, 32),
            nn.ReLU(),
            nn.Conv1d(32, 64, 5, stride=2, padding=2),
            nn.GroupNorm(4, 64),
            nn.ReLU(),
            nn.Conv1d(64, 64, 3, stride=2, padding=1),
            nn.GroupNorm(4, 64),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, outputs)

    def forward(self, series: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        scores: Tensor = self.head(self.features(series).mean(2))
        return scores


class MLP(nn.Module):
    """A hidden layer of so many features, 64 if nobody says otherwise, and a linear head.

    With 64: 64 f + 64 parameters for f numbers in an input, whatever its dimensions; 65 in the head for each output.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int, width: int = 64) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU())
        self.head = nn.Linear(width, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Class scores or values, shape (batch, outputs)."""
        scores: Tensor = self.head(self.features(inputs))
        return scores


def cnn1d(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """See `CNN1d`."""
    return CNN1d(shape, outputs)


def mlp(shape: tuple[int, ...], outputs: int, *, width: Annotated[int, Field(ge=1)] = 64) -> nn.Module:
    """See `MLP`."""
    return MLP(shape, outputs, width)
