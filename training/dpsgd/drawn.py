"""Examples that say nothing of the data: of their shapes and types, with numbers that are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpeer.training.device import mapped

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer


def drawn_like(peer: Trainer, inputs: Any, targets: Any, below: int = 2, seed: int = 0) -> tuple[Any, Any]:
    """A minibatch of the same make that says nothing of the data.

    Numbers are above 0, for what takes a root of them; tokens are any of the vocabulary, where the task says how many
    there are.

    Args:
        peer: Whose task it is.
        inputs: Of which shapes and types inputs are.
        targets: Of which targets are.
        below: Other whole numbers are 0 or more and below this, for nothing is known about them.
        seed: Of the numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    built = peer.task.built or {}
    vocabulary = (
        (built.get("options") or {}).get("vocabulary") or built.get("outputs") if built.get("tokens") else below
    )

    def drawn(tensor: Tensor, below: int = below) -> Tensor:
        if tensor.is_floating_point():
            return torch.rand(tensor.shape, generator=generator).to(tensor)
        return torch.randint(below, tensor.shape, generator=generator).to(tensor)

    return mapped(inputs, lambda tensor: drawn(tensor, int(vocabulary or below))), mapped(targets, drawn)
