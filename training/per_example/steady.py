"""Products of matrices whose result for a row does not depend on where in the batch the row stands, to the last bit.

Where matrices have other than usual sizes, their product is computed by other code at the edges than elsewhere, which
adds up in another order. Then an example's gradient changes in its last bits when it moves to another place, as all do
when one more is drawn before them; and weights that nearly cancel, which a neighbor may send, make last bits large.
With zeros around them all matrices have usual sizes, whoever multiplies them: layers, attention, backward passes, vmap.
That it helps on this machine is looked at when a peer starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from dpeer.exceptions import TaskError
from dpeer.training.per_example.operations import keeps_apart

MULTIPLE = 16
"""Products of matrices with so many rows and columns, or a multiple, have no edges: float32 in the widest registers."""

F = TypeVar("F", bound=Callable[..., Any])


def steadily(way: F) -> F:
    """Within the function that is decorated, products are computed so, and everything by one thread.

    Several threads would divide tensors among them, with ends in the middle.

    Raises:
        Unsuited: An operation is not known to keep examples apart, or failed.
    """

    @wraps(way)
    def computed(*arguments: Any, **named: Any) -> Any:
        try:
            with _one_thread(), _Steady():  # type: ignore[no-untyped-call]
                return way(*arguments, **named)
        except NotTogether as error:
            raise Unsuited() from error

    return computed  # type: ignore[return-value]


class Unsuited(TaskError):  # noqa: N818 - no error of the task's
    """This way cannot compute this model's gradients; another one is taken."""

    def __init__(self) -> None:
        super().__init__("this way cannot compute the gradients of single examples of the task's model")


class NotTogether(BaseException):
    """What a task does must not be computed for several examples at once; no `except Exception` of its catches it."""


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


class _Steady(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here, and to import what compiles takes a peer two seconds and 40 MB.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not keeps_apart(func, args):
            raise NotTogether(str(func))
        try:
            return _PRODUCTS.get(func, func)(*args, **(kwargs or {}))
        except Exception as error:
            # Code that catches it and does something else would do it for all examples, because of one.
            raise NotTogether(str(func)) from error


_ATEN = torch.ops.aten


def _padded(matrix: Tensor) -> Tensor:
    """A matrix, or several, with zeros to the right and below."""
    right, below = -matrix.shape[-1] % MULTIPLE, -matrix.shape[-2] % MULTIPLE
    return functional.pad(matrix, (0, right, 0, below)) if right or below else matrix


def _product(left: Tensor, right: Tensor) -> Tensor:
    multiply = _ATEN.mm.default if left.ndim == 2 else _ATEN.bmm.default
    rows, columns = left.shape[-2], right.shape[-1]
    found: Tensor = multiply(_padded(left), _padded(right))
    return found if found.shape[-2:] == (rows, columns) else found[..., :rows, :columns].contiguous()


def _with_vector(matrix: Tensor, vector: Tensor) -> Tensor:
    return _product(matrix, vector[:, None])[:, 0].contiguous()


def _plus(product: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def computed(added: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        found = product(left, right)
        found = found if alpha == 1 else found * alpha
        return found if beta == 0 else found + (added if beta == 1 else added * beta)

    return computed


_PRODUCTS: Mapping[Any, Callable[..., Tensor]] = {
    _ATEN.mm.default: _product,
    _ATEN.bmm.default: _product,
    _ATEN.mv.default: _with_vector,
    _ATEN.addmm.default: _plus(_product),
    _ATEN.baddbmm.default: _plus(_product),
    _ATEN.addmv.default: _plus(_with_vector),
}
