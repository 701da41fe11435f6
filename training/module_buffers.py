"""Module buffers and changed frozen parameters: the values that a model's own code may change in training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from dpeer.training.flat import Flat
from dpeer.training.store import frozen, mark


class ModuleBuffers:
    """A model's buffers, and those of its frozen parameters that its code has changed (a teacher's average, ...).

    Args:
        module: The model, as the task made it.
        body: The trained parameters that are shared.
        head: The trained parameters that stay on the peer.

    Attributes:
        still: The marks that the frozen parameters had in the beginning, by name.
    """

    def __init__(self, module: nn.Module, body: Flat, head: Flat) -> None:
        self._module, self._frozen = module, frozen(module, body, head)
        self.still = {name: mark(parameter) for name, parameter in self._frozen.items()}

    def copies(self) -> dict[str, Tensor]:
        """Copies of the buffers and changed parameters as they are now, by name, on their device."""
        named = dict(self._module.named_buffers()) | self._changed()
        return {name: tensor.detach().clone() for name, tensor in named.items()}

    def put(self, values: Mapping[str, Tensor]) -> None:
        """Give the buffers and parameters the values of such copies."""
        named = self._frozen | dict(self._module.named_buffers())
        for name, value in values.items():
            _write(named[name], value)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Within it buffers and parameters may change; afterwards they are as they were."""
        owned = [
            (module, name, buffer, buffer.detach().clone())
            for module in self._module.modules()
            for name, buffer in module._buffers.items()  # named_buffers takes eight times as long, for each SAM step
            if buffer is not None
        ]
        changed = [(parameter, parameter.detach().clone()) for parameter in self._changed().values()]
        try:
            yield
        finally:
            for module, name, buffer, value in owned:
                _write(buffer, value)
                if getattr(module, name) is not buffer:  # the model's code has put another tensor there
                    setattr(module, name, buffer)
            for parameter, value in changed:
                _write(parameter, value)

    def _changed(self) -> dict[str, Tensor]:
        return {name: parameter for name, parameter in self._frozen.items() if mark(parameter) != self.still[name]}


def _write(tensor: Tensor, value: Tensor) -> None:
    """Write values only where they differ: constants may be in memory that cannot be written (expanded tensors)."""
    with torch.no_grad():
        if not torch.equal(tensor, value):
            tensor.copy_(value)
