"""Registry of rules by layer type: the per-example gradients of a layer's parameters (see `by_layers`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeer.training.dpsgd.gradient_factors import (
    DenseGradients,
    EmbeddingGradients,
    OuterProducts,
    ParameterGradients,
    sequence_gradients,
)
from dpeer.training.dpsgd.stable_matmul import MULTIPLE, product

GradientsOf = Callable[[Any, Tensor, Tensor], Mapping[str, ParameterGradients]]
"""From a layer, its input and the gradient of its output (examples first) to its parameters' gradients by name."""


@dataclass(frozen=True)
class LayerRule:
    """How the gradients of a layer's parameters are computed.

    Attributes:
        compute: Does it.
        any_dims: Whether it takes any dimensions between that of the examples and those of the layer.
    """

    compute: GradientsOf
    any_dims: bool

    def __call__(self, layer: nn.Module, x: Tensor, g: Tensor, examples: int) -> Mapping[str, ParameterGradients]:
        """The gradients, where each example may have several rows of the input, side by side.

        Args:
            layer: The layer.
            x: Its input, shape (examples times rows, ...).
            g: The gradient of its output, likewise.
            examples: The number of examples.
        """
        if len(x) == examples:
            return self.compute(layer, x, g)
        if self.any_dims:
            return self.compute(layer, x.reshape(examples, -1, *x.shape[1:]), g.reshape(examples, -1, *g.shape[1:]))
        found = self.compute(layer, x, g)
        return {
            name: each.added(examples) if isinstance(each, DenseGradients) else each for name, each in found.items()
        }


_RULES: dict[type[nn.Module], LayerRule] = {}


def register(*kinds: type[nn.Module], any_dims: bool = False) -> Callable[[GradientsOf], GradientsOf]:
    """Decorator that registers the rule of layer types.

    Args:
        *kinds: The types. One derived from them has no rule: it may compute anything.
        any_dims: See `LayerRule`.
    """

    def registered(compute: GradientsOf) -> GradientsOf:
        for kind in kinds:
            _RULES[kind] = LayerRule(compute, any_dims)
        return compute

    return registered


def rule_of(layer: nn.Module) -> LayerRule | None:
    """The rule of a layer; None without one, or where the layer's settings make it do more than its rule."""
    match layer:
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            usual = layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        case nn.Embedding():
            usual = layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse
        case _:
            usual = True
    return _RULES.get(type(layer)) if usual else None


@register(nn.Linear, any_dims=True)
def _linear(layer: nn.Linear, x: Tensor, g: Tensor) -> Mapping[str, ParameterGradients]:
    if x.ndim == 2:
        return {"weight": OuterProducts(g, x), "bias": DenseGradients(g)}
    x, g = x.reshape(len(x), -1, layer.in_features), g.reshape(len(g), -1, layer.out_features)
    return {"weight": sequence_gradients(g, x), "bias": DenseGradients(g.sum(1))}


@register(nn.Conv1d, nn.Conv2d, nn.Conv3d)
def _convolution(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, g: Tensor) -> Mapping[str, ParameterGradients]:
    left = g.reshape(len(g) * layer.groups, layer.out_channels // layer.groups, -1)
    weight = product(left, _patches(layer, x, g).flatten(0, 1).transpose(1, 2))[..., : layer.weight[0].numel()]
    return {"weight": DenseGradients(weight.reshape(len(g), -1)), "bias": DenseGradients(g.flatten(2).sum(2))}


def _patches(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, g: Tensor) -> Tensor:
    """The patches that the filters see, shape (examples, groups, values that a filter sees, places).

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
    padded = x.new_empty(len(x), layer.groups, values + -values % MULTIPLE, g[0, 0].numel())
    padded[:, :, values:].zero_()
    padded[:, :, :values].view(shape).copy_(x.as_strided(shape, strides))
    return padded


@register(nn.GroupNorm)
def _group_norm(layer: nn.GroupNorm, x: Tensor, g: Tensor) -> Mapping[str, ParameterGradients]:
    normal = functional.group_norm(x, layer.num_groups, eps=layer.eps)
    shape = (len(x), layer.num_channels, -1)
    return {
        "weight": DenseGradients((g * normal).reshape(shape).sum(2)),
        "bias": DenseGradients(g.reshape(shape).sum(2)),
    }


@register(nn.LayerNorm, any_dims=True)
def _layer_norm(layer: nn.LayerNorm, x: Tensor, g: Tensor) -> Mapping[str, ParameterGradients]:
    normal = functional.layer_norm(x, list(layer.normalized_shape), eps=layer.eps)
    shape = (len(x), -1, torch.Size(layer.normalized_shape).numel())
    return {
        "weight": DenseGradients((g * normal).reshape(shape).sum(1)),
        "bias": DenseGradients(g.reshape(shape).sum(1)),
    }


@register(nn.Embedding, any_dims=True)
def _embedding(layer: nn.Embedding, x: Tensor, g: Tensor) -> Mapping[str, ParameterGradients]:
    places, g = x.reshape(len(x), -1), g.reshape(len(g), -1, layer.embedding_dim)
    if layer.padding_idx is not None:
        g = g.masked_fill((places == layer.padding_idx)[:, :, None], 0.0)
    return {"weight": EmbeddingGradients(places, g, layer.num_embeddings)}
