"""Products of matrices whose result for a row does not depend on where in the batch the row stands, to the last bit.

Where matrices have other than usual sizes, their product is computed by other code at the edges than elsewhere, which
adds up in another order. Then an example's gradient changes in its last bits when it moves to another place, as all do
when one more is drawn before them; and weights that nearly cancel, which a neighbor may send, make last bits large.
With zeros around them all matrices have usual sizes, whoever multiplies them: layers, attention, backward passes, vmap.
That it helps on this machine is looked at when a peer starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from dpeer.exceptions import TaskError
from dpeer.training.dpsgd.operations import keeps_apart

MULTIPLE = 16
"""Products of matrices with so many rows and columns, or a multiple, have no edges: float32 in the widest registers."""


@contextmanager
def steadily(*, guarded: bool = True) -> Iterator[None]:
    """Within it products are computed so, everything by one thread, and by operations that keep examples apart.

    Several threads would divide tensors among them, with ends in the middle.

    Args:
        guarded: Whether functions of torch are looked at, too, and not only the operations that they are made of. That
            takes as long as a third of a small model's step; it is needed where code is called that may take several
            examples for one (a series, a table), and for nothing that is written here.

    Raises:
        Unsuited: An operation is not known to keep examples apart, or failed; also where code has caught that.
    """
    steady = _Steady()  # type: ignore[no-untyped-call]
    try:
        with one_thread(), steady, _Guard() if guarded else nullcontext():
            yield
    except (Exception, NotTogether) as error:
        if steady.refused is None and not isinstance(error, NotTogether):
            raise
        raise Unsuited() from error
    if steady.refused is not None:
        raise Unsuited() from steady.refused


class Unsuited(TaskError):  # noqa: N818 - no error of the task's
    """This way cannot compute this model's gradients; another one is taken."""

    def __init__(self) -> None:
        super().__init__("this way cannot compute the gradients of single examples of the task's model")


class NotTogether(BaseException):
    """What a task does must not be computed for several examples at once; no `except Exception` of its catches it."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it torch computes on one thread."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Guard(TorchFunctionMode):
    """What functions of torch make of the shapes of what they are given, so that examples meet in operations below."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        # vmap puts tables of an example's own one behind the other: a place beyond one's end lies in another example's.
        looked_up = func in (functional.embedding, torch.embedding)
        if looked_up and any(_of_one_example(table) and table.is_floating_point() for table in given):
            raise NotTogether("embedding")
        # Two dimensions are taken for one series, of which each example would be a place.
        if func is functional.multi_head_attention_forward and given[0].ndim != 3:
            raise NotTogether("attention")
        return func(*args, **kwargs)


def _of_one_example(tensor: Tensor) -> bool:
    """Whether vmap has one such tensor for each example."""
    while is_functorch_wrapped_tensor(tensor):
        if is_batchedtensor(tensor):
            return True
        tensor = get_unwrapped(tensor)
    return False


class _Steady(TorchDispatchMode):  # type: ignore[no-untyped-call]
    refused: BaseException | None = None
    """Why the first operation was refused, which code may have caught."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here, and to import what compiles takes a peer two seconds and 40 MB.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            if not keeps_apart(func, args):
                raise NotTogether(str(func))
            return _PRODUCTS.get(func, func)(*args, **(kwargs or {}))
        except (Exception, NotTogether) as error:
            # Code that catches it and does something else would do it for all examples, because of one.
            self.refused = self.refused or error
            raise NotTogether(str(func)) from error


_ATEN = torch.ops.aten


def _padded(matrix: Tensor) -> Tensor:
    """A matrix, or several, with zeros to the right and below."""
    right, below = -matrix.shape[-1] % MULTIPLE, -matrix.shape[-2] % MULTIPLE
    return functional.pad(matrix, (0, right, 0, below)) if right or below else matrix


def product(left: Tensor, right: Tensor) -> Tensor:
    """Of two matrices, or of as many pairs of them, computed with zeros around them; no mode has to be on for it."""
    multiply = _ATEN.mm.default if left.ndim == 2 else _ATEN.bmm.default
    rows, columns = left.shape[-2], right.shape[-1]
    found: Tensor = multiply(_padded(left), _padded(right))
    return found if found.shape[-2:] == (rows, columns) else found[..., :rows, :columns].contiguous()


def _with_vector(matrix: Tensor, vector: Tensor) -> Tensor:
    return product(matrix, vector[:, None])[:, 0].contiguous()


def _plus(product: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def computed(added: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        found = product(left, right)
        found = found if alpha == 1 else found * alpha
        return found if beta == 0 else found + (added if beta == 1 else added * beta)

    return computed


def _convolution_backward(
    gradient: Tensor, inputs: Tensor, weight: Tensor, bias: Any, stride: list[int], padding: list[int],
    dilation: list[int], transposed: bool, output_padding: list[int], groups: int, wanted: list[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """As torch has it; the weights' gradient where a filter sees one place is a product, whose edges torch shows."""
    compute = _ATEN.convolution_backward.default
    rest = bias, stride, padding, dilation, transposed, output_padding, groups
    if not wanted[1] or transposed or any(size != 1 for size in weight.shape[2:]):
        found: tuple[Tensor | None, ...] = compute(gradient, inputs, weight, *rest, wanted)
        return found
    of_inputs, _, of_bias = compute(gradient, inputs, weight, *rest, [wanted[0], False, wanted[2]])
    seen = functional.pad(inputs, [width for width in reversed(padding) for _ in range(2)])
    for dimension, (step, places) in enumerate(zip(stride, gradient.shape[2:], strict=True), start=2):
        seen = seen[(slice(None),) * dimension + (slice(0, step * (places - 1) + 1, step),)]
    of_weights = product(_by_group(gradient, groups), _by_group(seen, groups).transpose(1, 2))
    return of_inputs, of_weights.reshape(weight.shape), of_bias


def _by_group(values: Tensor, groups: int) -> Tensor:
    """Shape (groups, channels of one, examples times places), of (examples, channels, places ...)."""
    split = values.reshape(len(values), groups, values.shape[1] // groups, -1)
    return split.permute(1, 2, 0, 3).reshape(groups, split.shape[2], -1)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As torch has it, made of products: in one piece attention has edges, too."""
    scores = _scores(query, key, is_causal, attn_mask, scale)
    return _products(scores.softmax(-1), value), scores.logsumexp(-1)


def _attention_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor, total: Tensor, dropout_p: float,
    is_causal: bool, *, attn_mask: Tensor | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    weights = _scores(query, key, is_causal, attn_mask, scale).softmax(-1)
    of_weights = _products(gradient, value.transpose(-1, -2)) - (gradient * out).sum(-1, keepdim=True)
    of_scores = weights * of_weights * _scale_of(query, scale)
    turned = of_scores.transpose(-1, -2)
    return _products(of_scores, key), _products(turned, query), _products(weights.transpose(-1, -2), gradient)


def _scores(query: Tensor, key: Tensor, is_causal: bool, mask: Tensor | None, scale: float | None) -> Tensor:
    scores = _products(query, key.transpose(-1, -2)) * _scale_of(query, scale)
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def _scale_of(query: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Of matrices in any number of dimensions, which are the same in both."""
    found = product(left.reshape(-1, *left.shape[-2:]), right.reshape(-1, *right.shape[-2:]))
    return found.view(*left.shape[:-1], right.shape[-1])


_PRODUCTS: Mapping[Any, Callable[..., Any]] = {
    _ATEN.mm.default: product,
    _ATEN.bmm.default: product,
    _ATEN.mv.default: _with_vector,
    _ATEN.addmm.default: _plus(product),
    _ATEN.baddbmm.default: _plus(product),
    _ATEN.addmv.default: _plus(_with_vector),
    _ATEN.convolution_backward.default: _convolution_backward,
    _ATEN._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention_backward,
}
