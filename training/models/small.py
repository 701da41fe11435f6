"""Small networks that train fast on one core: CNNs, an MLP, and a small body on frozen random features."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import layer_norm


class FeaturesAndHead(nn.Module):
    """A network of `features` and a linear `head`."""

    features: nn.Sequential
    head: nn.Linear

    def forward(self, inputs: Tensor) -> Tensor:
        """Class scores or values, shape (batch, outputs)."""
        scores: Tensor = self.head(self.features(inputs))
        return scores


def normed(convolution: nn.Conv1d | nn.Conv2d) -> tuple[nn.Module, ...]:
    """A convolution, its GroupNorm in four groups, and ReLU."""
    return convolution, nn.GroupNorm(4, convolution.out_channels), nn.ReLU()


class CNN(FeaturesAndHead):
    """Three strided convolutions with GroupNorm, a layer of 64 features, and a linear head.

    Strides in place of pooling make it about four times faster on a core than the same at full resolution. 90,826
    parameters for inputs (3, 32, 32) and 10 classes, of which 650 are the head's.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        channels, height, width = shape
        self.features = nn.Sequential(
            *normed(nn.Conv2d(channels, 16, 5, stride=2, padding=2)),
            *normed(nn.Conv2d(16, 32, 3, stride=2, padding=1)),
            *normed(nn.Conv2d(32, 64, 3, stride=2, padding=1)),
            nn.Flatten(),
            nn.Linear(64 * -(-height // 8) * -(-width // 8), 64),
            nn.ReLU(),
        )
        self.head = nn.Linear(64, outputs)


class DigitsNet(FeaturesAndHead):
    """Three convolutions with GroupNorm (14,208 parameters), and a linear head (1,290).

    Input (batch, 1, 8, 8), output (batch, 10).
    """

    def __init__(self, shape: tuple[int, ...] = (1, 8, 8), outputs: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *normed(nn.Conv2d(shape[0], 16, 3, padding=1)),
            *normed(nn.Conv2d(16, 32, 3, padding=1)),
            nn.MaxPool2d(2),
            *normed(nn.Conv2d(32, 32, 3, stride=2, padding=1)),
            nn.Flatten(),
        )
        with torch.no_grad():
            width = self.features(torch.zeros(1, *shape)).shape[1]
        self.head = nn.Linear(width, outputs)


class CNN1d(nn.Module):
    """Three strided convolutions over time with GroupNorm, the average over time, and a linear head.

    24,838 parameters for inputs (9, 128) and 6 classes, of which 390 are the head's; none depends on the length.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *normed(nn.Conv1d(shape[0], 32, 5, stride=2, padding=2)),
            *normed(nn.Conv1d(32, 64, 5, stride=2, padding=2)),
            *normed(nn.Conv1d(64, 64, 3, stride=2, padding=1)),
        )
        self.head = nn.Linear(64, outputs)

    def forward(self, series: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        scores: Tensor = self.head(self.features(series).mean(2))
        return scores


class MLP(FeaturesAndHead):
    """A hidden layer of `width` features, and a linear head.

    With 64: 64 f + 64 parameters for f numbers in an input, whatever its dimensions; 65 in the head for each output.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int, *, width: Annotated[int, Field(ge=1)] = 64) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), width), nn.ReLU())
        self.head = nn.Linear(width, outputs)


_FILTERS, _WIDTH = 64, 12


class SmallBody(nn.Module):
    """Frozen random filters, their mean and largest value over all places, a layer of 12 features, and a linear head.

    The body has 12 (128 + 1) = 1,548 parameters whatever the input, and the head 13 for each output. The filters come
    from the common first seed, so they are the same on all peers; they are neither trained nor sent. Private noise
    grows with the root of what is sent: this is what it leaves room for.
    """

    def __init__(self, shape: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        match len(shape):
            case 3:
                filters: nn.Module = nn.Conv2d(shape[0], _FILTERS, 5, stride=2, padding=2)
            case 2:
                filters = nn.Conv1d(shape[0], _FILTERS, 9, stride=2, padding=4)
            case _:
                filters = nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), 2 * _FILTERS))
        self.filters = filters.requires_grad_(False)
        self.body = nn.Linear(2 * _FILTERS, _WIDTH)
        self.head = nn.Linear(_WIDTH, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        found = torch.relu(self.filters(inputs))
        if found.dim() > 2:
            found = found.flatten(2)
            found = torch.cat((found.mean(2), found.amax(2)), 1)
        scores: Tensor = self.head(torch.relu(self.body(layer_norm(found, found.shape[1:]))))
        return scores
