"""Looking at a model away from where it begins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer


@contextmanager
def stirred(peer: Trainer, *, all_of_it: bool = False) -> Iterator[None]:
    """Within it no trained parameter of more than one value is zero throughout; afterwards all are as they were.

    A factor that begins at zero (of an adapter, or a gate) makes the gradients of what is behind it zero, so that
    nothing would be seen of how they are computed. The numbers in its place are as large as a linear layer's first
    ones, and always the same.

    Args:
        peer: Whose model it is.
        all_of_it: Every trained parameter has such numbers, vectors numbers around 1: a gate that is almost closed, or
            a model so sure that it has hardly a gradient, shows as little as one that is zero.
    """
    kept = peer.model.data.clone()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, parameter, place in peer.model.layout:
            if all_of_it or (parameter.numel() > 1 and not kept[place].any()):
                drawn = torch.rand(parameter.numel(), generator=generator, device="cpu")
                peer.model.data[place] = _usual(parameter, drawn, around=1.0 if all_of_it else 0.0).to(kept.device)
    try:
        yield
    finally:
        peer.reattach()
        with torch.no_grad():
            peer.model.data.copy_(kept)


def _usual(parameter: Tensor, drawn: Tensor, around: float) -> Tensor:
    """Values as large as a layer's first ones, made of as many from 0 to 1; vectors are about `around`."""
    if parameter.ndim > 1:
        bound = 1 / math.sqrt(parameter.numel() / len(parameter))
        return drawn * 2 * bound - bound
    return around + drawn * 0.2 - 0.1
