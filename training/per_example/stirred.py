"""Looking at a model away from where it begins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dpeer.training.trainer import Trainer


@contextmanager
def stirred(peer: Trainer) -> Iterator[None]:
    """Within it no trained parameter of more than one value is zero throughout; afterwards all are as they were.

    A factor that begins at zero (of an adapter, or a gate) makes the gradients of what is behind it zero, so that
    nothing would be seen of how they are computed. The numbers in its place are as large as a linear layer's first
    ones, and always the same.
    """
    kept = peer.model.data.clone()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _, parameter, place in peer.model.layout:
            if parameter.numel() > 1 and not kept[place].any():
                bound = 1 / math.sqrt(parameter.numel() / len(parameter)) if parameter.ndim > 1 else 0.1
                values = torch.rand(parameter.numel(), generator=generator, device="cpu") * 2 * bound - bound
                peer.model.data[place] = values.to(kept.device)
    try:
        yield
    finally:
        peer.reattach()
        with torch.no_grad():
            peer.model.data.copy_(kept)
