"""Matrix products whose result for a row has the same last bits wherever in the batch the row stands.

BLAS computes the edges of matrices of unusual sizes by other code, which adds up in another order. An example's
gradient would then change in its last bits when it moves to another place, as all do when one more is drawn before
them; weights that nearly cancel, which a neighbor may send, make last bits as large as gradients. Padding with zeros
gives all matrices usual sizes: in layers, attention, backward passes and vmap. `backend_choice` tests it on the
machine at hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

MULTIPLE = 16
"""Products of matrices with so many rows and columns, or a multiple, have no edges: float32 in the widest registers."""


@contextmanager
def padded_products() -> Iterator[None]:
    """Context in which torch pads matrix products and computes on one thread, which divides no tensor."""
    with one_thread(), _PaddedProducts():  # type: ignore[no-untyped-call]
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Context in which torch computes on one thread."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _PaddedProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here, and to import what compiles takes a peer two seconds and 40 MB.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _PRODUCTS.get(func, func)(*args, **(kwargs or {}))


_ATEN = torch.ops.aten


def _padded(matrix: Tensor) -> Tensor:
    """A matrix, or several, with zeros to the right and below."""
    right, below = -matrix.shape[-1] % MULTIPLE, -matrix.shape[-2] % MULTIPLE
    return functional.pad(matrix, (0, right, 0, below)) if right or below else matrix


def product(left: Tensor, right: Tensor) -> Tensor:
    """The product of two matrices, or of a batch of pairs, computed with zeros around them; needs no context."""
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
    """Torch's own, but for the weights' gradient of filters of one place: that is a product, and would have edges."""
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
    """Attention as padded products: torch's fused kernel has edges, too."""
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
    """Products of matrices behind any number of batch dimensions, equal in both."""
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
