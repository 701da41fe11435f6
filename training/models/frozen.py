"""A model with a small body, on random features that are not trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

FILTERS, WIDTH = 64, 12


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
                filters: nn.Module = nn.Conv2d(shape[0], FILTERS, 5, stride=2, padding=2)
            case 2:
                filters = nn.Conv1d(shape[0], FILTERS, 9, stride=2, padding=4)
            case _:
                filters = nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), 2 * FILTERS))
        self.filters = filters.requires_grad_(False)
        self.body = nn.Linear(2 * FILTERS, WIDTH)
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Class scores, shape (batch, outputs)."""
        found = torch.relu(self.filters(inputs))
        if found.dim() > 2:
            found = found.flatten(2)
            found = torch.cat((found.mean(2), found.amax(2)), 1)
        scores: Tensor = self.head(torch.relu(self.body(layer_norm(found, found.shape[1:]))))
        return scores


def small_body(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """See `SmallBody`."""
    return SmallBody(shape, outputs)
