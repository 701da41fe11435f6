"""Rules: of one kind of layer, the gradients of its parameters for each example (see `by_layers`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeer.training.dpsgd.ghost_norm import Places, series
from dpeer.training.dpsgd.gradient_factors import Outer, Part, Whole
from dpeer.training.dpsgd.stable_matmul import MULTIPLE, product
from dpeer.training.lora.targets import is_transposed

Rule = Callable[[Any, Tensor, Tensor], Mapping[str, Part]]
"""Of a layer, its input and the gradient of its output (both with the examples first), its parameters' gradients."""


def rule_of(layer: nn.Module) -> Rule | None:
    """The rule of a layer; None where there is none, or where the layer does more than its rule knows of."""
    match layer:
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            usual = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        case nn.Embedding():
            usual = layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse
        case _:
            usual = True
    if not usual:
        return None
    return _transposed if type(layer).__name__ == "Conv1D" and is_transposed(layer) else _RULES.get(type(layer))


def found_by(rule: Rule, layer: nn.Module, x: Tensor, g: Tensor, examples: int) -> Mapping[str, Part]:
    """What a rule finds where each example may have several rows of the input, side by side.

    Args:
        rule: The layer's.
        layer: The layer.
        x: Its input, shape (examples times rows, ...).
        g: The gradient of its output, likewise.
        examples: How many there are.
    """
    if len(x) == examples:
        return rule(layer, x, g)
    if rule in _AT_EACH_PLACE:
        return rule(layer, x.reshape(examples, -1, *x.shape[1:]), g.reshape(examples, -1, *g.shape[1:]))
    return {name: part.added(examples) if isinstance(part, Whole) else part for name, part in rule(layer, x, g).items()}


def _linear(layer: nn.Linear, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    if x.ndim == 2:
        return {"weight": Outer(g, x), "bias": Whole(g)}
    x, g = x.reshape(len(x), -1, layer.in_features), g.reshape(len(g), -1, layer.out_features)
    return {"weight": series(g, x), "bias": Whole(g.sum(1))}


def _transposed(layer: Any, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    """Of transformers' `Conv1D`, which computes x W + b."""
    inputs, outputs = layer.weight.shape
    x, g = x.reshape(len(x), -1, inputs), g.reshape(len(g), -1, outputs)
    return {"weight": series(x, g), "bias": Whole(g.sum(1))}


def _convolution(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    left = g.reshape(len(g) * layer.groups, layer.out_channels // layer.groups, -1)
    weight = product(left, _seen(layer, x, g).flatten(0, 1).transpose(1, 2))[..., : layer.weight[0].numel()]
    return {"weight": Whole(weight.reshape(len(g), -1)), "bias": Whole(g.flatten(2).sum(2))}


def _seen(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, g: Tensor) -> Tensor:
    """What the filters see at each place, shape (examples, groups, values that a filter sees, places).

    Behind the values are zeros, up to a multiple of `MULTIPLE`: the product would else be made of one more copy.
    """
    padding = [int(width) for width in layer.padding]
    x = functional.pad(x, [width for width in reversed(padding) for _ in range(2)])
    channels, values = layer.in_channels // layer.groups, layer.weight[0].numel()
    shape = (len(x), layer.groups, channels, *layer.kernel_size, *g.shape[2:])
    # By strides: quicker than `unfold`, and for any number of dimensions.
    along = x.stride()[2:]
    strides = (
        x.stride(0), channels * x.stride(1), x.stride(1),
        *(step * stride for step, stride in zip(layer.dilation, along, strict=True)),
        *(step * stride for step, stride in zip(layer.stride, along, strict=True)),
    )  # fmt: skip
    room = x.new_empty(len(x), layer.groups, values + -values % MULTIPLE, g[0, 0].numel())
    room[:, :, values:].zero_()
    room[:, :, :values].view(shape).copy_(x.as_strided(shape, strides))
    return room


def _group_norm(layer: nn.GroupNorm, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    normal = functional.group_norm(x, layer.num_groups, eps=layer.eps)
    shape = (len(x), layer.num_channels, -1)
    return {"weight": Whole((g * normal).reshape(shape).sum(2)), "bias": Whole(g.reshape(shape).sum(2))}


def _layer_norm(layer: nn.LayerNorm, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    normal = functional.layer_norm(x, list(layer.normalized_shape), eps=layer.eps)
    shape = (len(x), -1, torch.Size(layer.normalized_shape).numel())
    return {"weight": Whole((g * normal).reshape(shape).sum(1)), "bias": Whole(g.reshape(shape).sum(1))}


def _embedding(layer: nn.Embedding, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    places, g = x.reshape(len(x), -1), g.reshape(len(g), -1, layer.embedding_dim)
    if layer.padding_idx is not None:
        g = g.masked_fill((places == layer.padding_idx)[:, :, None], 0.0)
    return {"weight": Places(places, g, layer.num_embeddings)}


_RULES: Mapping[type[nn.Module], Rule] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.Conv3d: _convolution,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.Embedding: _embedding,
}
"""By the very class: one derived from it may do anything."""

_AT_EACH_PLACE: tuple[Rule, ...] = (_linear, _transposed, _layer_norm, _embedding)
"""Rules that take any dimensions between that of the examples and those of the layer."""
