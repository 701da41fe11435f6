"""Whether a model moves examples about: computes something in an order, or a number of rows, that follows from values.

Per-example gradients by layers take it that the rows which go into a layer belong to the examples in their order. A
model that sorts a batch by length, or leaves out padding, gives the right outputs and puts other rows there; and which
ones follows from the values, so that no look at some examples tells what happens with others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dpeer.training.batches import predict

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer

_ATEN = torch.ops.aten
_ORDERING = (_ATEN.sort, _ATEN.argsort, _ATEN.topk, _ATEN.argmax, _ATEN.argmin)
"""Operations that make places of values, and say so by no tag."""

_TAGS = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
"""Of operations whose shape follows from values (x[mask]), and of those by which code looks at values (if x.any())."""


def _follows_values(operation: Any, arguments: Any) -> bool:
    if operation.overloadpacket is _ATEN.index:  # with numbers it is as many rows as there are numbers
        return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in arguments[1])
    return operation.overloadpacket in _ORDERING or any(tag in operation.tags for tag in _TAGS)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    found = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here, and to import what compiles takes a peer two seconds and 150 MB.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found = self.found or _follows_values(func, args)
        return func(*args, **(kwargs or {}))


def moves_examples(peer: Trainer, inputs: Any) -> bool:
    """Whether the model's forward may put examples elsewhere, or looks at values to decide what to do."""
    watch = _Watch()  # type: ignore[no-untyped-call]
    try:
        with torch.no_grad(), watch:
            predict(peer.module, inputs)
    except Exception:  # what cannot be watched is not known
        return True
    return watch.found
