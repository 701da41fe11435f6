"""Parameters in one piece: what makes releasing, mixing and stepping single operations on one vector."""

from __future__ import annotations

from typing import Any, Literal

import torch

from dpeer.training.split import Named

Phase = Literal["head", "body", "model"]
"""What is being trained; "model" where an algorithm trains all parameters jointly."""


class Flat:
    """Some of a model's parameters as one contiguous float32 vector, and their gradients as another.

    The model's parameters become views into `data`, in the model's own order, and their ``.grad`` views into
    `grad`, into which autograd adds: zero it before a backward pass.

    Args:
        phase: What these parameters are.
        named: The parameters with their names; all float32 and on the CPU.

    Attributes:
        data: The values, shape (count,).
        grad: The gradients, shape (count,).
    """

    def __init__(self, phase: Phase, named: Named) -> None:
        self.phase: Phase = phase
        self.count = sum(parameter.numel() for _, parameter in named)
        self.data = torch.empty(self.count)
        self.grad = torch.zeros(self.count)
        self._parameters = [parameter for _, parameter in named]
        self._entries: list[dict[str, Any]] = []
        offset = 0
        for name, parameter in named:
            here = slice(offset, offset + parameter.numel())
            self.data[here].copy_(parameter.data.reshape(-1))
            parameter.data = self.data[here].view(parameter.shape)
            parameter.grad = self.grad[here].view(parameter.shape)
            self._entries.append({"name": name, "shape": list(parameter.shape), "offset": offset})
            offset = here.stop

    def requires_grad(self, wanted: bool) -> None:
        """Have autograd compute these parameters' gradients, or leave them out and save that work."""
        for parameter in self._parameters:
            parameter.requires_grad_(wanted)

    @property
    def manifest(self) -> dict[str, Any]:
        """What the vector holds, in plain JSON values; offsets count elements."""
        return {
            "dtype": "float32",
            "count": self.count,
            "parameters": [{**entry, "shape": [*entry["shape"]]} for entry in self._entries],
        }
