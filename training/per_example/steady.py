"""Linear layers whose result for a row does not depend on where in the batch the row stands, to the last bit.

Where matrices have other than usual sizes, their product is computed by other code at the edges than elsewhere, which
adds up in another order. Then an example's gradient changes in its last bits when it moves to another place, as all do
when one more is drawn before them; and weights that nearly cancel, which a neighbor may send, make last bits large.
With zeros around them the matrices have usual sizes. That it helps on this machine is looked at when a peer starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

MULTIPLE = 16
"""Products of matrices with so many rows and columns, or a multiple, have no edges: float32 in the widest registers."""

F = TypeVar("F", bound=Callable[..., Any])


def steadily(way: F) -> F:
    """Within the function that is decorated, linear layers are computed so, and all else by one thread.

    Several threads would divide tensors among them, with ends in the middle.
    """

    @wraps(way)
    def computed(*arguments: Any, **named: Any) -> Any:
        with _Steady(), _one_thread():
            return way(*arguments, **named)

    return computed  # type: ignore[return-value]


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Steady(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (_linear if func is functional.linear else func)(*args, **(kwargs or {}))


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002 - torch's names
    outputs, inputs = weight.shape
    right, below = -inputs % MULTIPLE, -outputs % MULTIPLE
    if not right and not below:
        return functional.linear(input, weight, bias)
    found = functional.linear(functional.pad(input, (0, right)), functional.pad(weight, (0, right, 0, below)))
    cut = found[..., :outputs]
    return cut.contiguous() if bias is None else cut + bias
