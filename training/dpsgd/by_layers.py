"""Backend that computes per-example gradients from each layer's input and the gradient of its output.

One forward pass of all examples together and one backward pass, in which the gradients of parameters are left out:
these are made here, for each example, from the two (Goodfellow, Efficient Per-Example Gradient Computations, 2015).
Those of a linear layer are outer products and never lie in memory.

A parameter that a module of the task's uses itself (a class token, embeddings of positions) is no layer's. Where its
first dimension is 1, as if there were one example, each example gets a copy of its own, whose gradient is that of the
example.

Requires a model that keeps examples apart and in order (`separable_layers`); a layer without a rule, or one that is
not called exactly once, raises. `backend_choice` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeer.training.batch_loader import predict
from dpeer.training.dpsgd.backends import UnsupportedModel, losses_of, with_tensors
from dpeer.training.dpsgd.gradient_factors import (
    DenseGradients,
    EmbeddingGradients,
    ExampleGradients,
    ParameterGradients,
    sequence_gradients,
)
from dpeer.training.dpsgd.stable_matmul import MULTIPLE, one_thread, padded_products, product
from dpeer.training.errors import blame
from dpeer.training.flat import Flat
from dpeer.training.net import Net

Rule = Callable[[Any, Tensor, Tensor, int], Mapping[str, ParameterGradients]]
"""From a layer, its input, the gradient of its output and the number of examples to its parameters' gradients by name.
Each example has one row of them, or several that lie one after the other, as windows of an image do."""


def _linear(layer: nn.Linear, x: Tensor, g: Tensor, examples: int) -> Mapping[str, ParameterGradients]:
    x, g = x.reshape(examples, -1, layer.in_features), g.reshape(examples, -1, layer.out_features)
    return {"weight": sequence_gradients(g, x), "bias": DenseGradients(g.sum(1))}


_Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


def _convolution(layer: _Convolution, x: Tensor, g: Tensor, examples: int) -> Mapping[str, ParameterGradients]:
    left = g.reshape(len(g) * layer.groups, layer.out_channels // layer.groups, -1)
    weight = product(left, _patches(layer, x, g).flatten(0, 1).transpose(1, 2))[..., : layer.weight[0].numel()]
    return {"weight": _added(weight.reshape(len(g), -1), examples), "bias": _added(g.flatten(2).sum(2), examples)}


def _added(rows: Tensor, examples: int) -> DenseGradients:
    """The gradients of examples, of those of their rows, shape (rows, values)."""
    return DenseGradients(rows if len(rows) == examples else rows.view(examples, -1, rows.shape[1]).sum(1))


def _patches(layer: _Convolution, x: Tensor, g: Tensor) -> Tensor:
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


def _group_norm(layer: nn.GroupNorm, x: Tensor, g: Tensor, examples: int) -> Mapping[str, ParameterGradients]:
    normal = functional.group_norm(x, layer.num_groups, eps=layer.eps)
    shape = (len(x), layer.num_channels, -1)
    weight, bias = ((g * normal).reshape(shape).sum(2), g.reshape(shape).sum(2))
    return {"weight": _added(weight, examples), "bias": _added(bias, examples)}


def _layer_norm(layer: nn.LayerNorm, x: Tensor, g: Tensor, examples: int) -> Mapping[str, ParameterGradients]:
    normal = functional.layer_norm(x, list(layer.normalized_shape), eps=layer.eps)
    shape = (examples, -1, torch.Size(layer.normalized_shape).numel())
    return {
        "weight": DenseGradients((g * normal).reshape(shape).sum(1)),
        "bias": DenseGradients(g.reshape(shape).sum(1)),
    }


def _embedding(layer: nn.Embedding, x: Tensor, g: Tensor, examples: int) -> Mapping[str, ParameterGradients]:
    places, g = x.reshape(examples, -1), g.reshape(examples, -1, layer.embedding_dim)
    if layer.padding_idx is not None:
        g = g.masked_fill((places == layer.padding_idx)[:, :, None], 0.0)
    return {"weight": EmbeddingGradients(places, g, layer.num_embeddings)}


_RULES: Mapping[type[nn.Module], Rule] = {
    nn.Linear: _linear, nn.Conv1d: _convolution, nn.Conv2d: _convolution, nn.Conv3d: _convolution,
    nn.GroupNorm: _group_norm, nn.LayerNorm: _layer_norm, nn.Embedding: _embedding,
}  # fmt: skip
"""By the very type of a layer: one derived from it may compute anything."""


def _rule_of(layer: nn.Module) -> Rule | None:
    """The rule of a layer; None without one, or where a convolution pads otherwise than its rule."""
    if isinstance(layer, _Convolution) and (layer.padding_mode != "zeros" or isinstance(layer.padding, str)):
        return None
    return _RULES.get(type(layer))


def by_layers(net: Net, part: Flat, inputs: Any, targets: Any, examples: int) -> ExampleGradients:
    """All examples together, by hooks on the layers; takes memory for what goes in and out of layers.

    Convolutions and norms also take it for their own gradients, one for each example, and so do linear layers on a
    long series; and a convolution for each place of its output what the filter sees there.

    Raises:
        UnsupportedModel: A parameter is of a layer without a rule, or that is not called exactly once.
    """
    # Attention takes two dimensions for one series, of which examples would be the places.
    if any(isinstance(layer, nn.MultiheadAttention) for layer in net.module.modules()):
        raise UnsupportedModel()
    layers, loose = _owners(net.module, part)
    seen: dict[nn.Module, list[Tensor]] = {layer: [] for layer in layers}
    anchor = torch.zeros((), device=part.data.device, requires_grad=True)
    copies = {name: _copies(net.module.get_parameter(name), examples) for name in loose}
    failed = "the task's model or loss failed on a training batch"
    with _without_own_gradients(part), torch.enable_grad():
        with _tapped(seen, anchor), blame(failed), padded_products():
            outputs = predict(with_tensors(net.module, copies) if copies else net.module, inputs)
        with blame(failed):
            losses = losses_of(net, outputs, targets, examples)
        with padded_products():
            _, *own = torch.autograd.grad(losses.sum(), [anchor, *copies.values()], allow_unused=True)
    with one_thread():  # rules call `product`, so they need no `padded_products`
        parts: list[tuple[slice, ParameterGradients]] = [
            (place, DenseGradients(gradient.reshape(examples, -1)))
            for place, gradient in zip(loose.values(), own, strict=True)
            if gradient is not None
        ]
        for layer, (rule, places) in layers.items():
            if len(seen[layer]) == 1:  # nothing that is made small depends on it
                continue
            if len(seen[layer]) != 2 or any(len(tensor) % examples or not len(tensor) for tensor in seen[layer]):
                raise UnsupportedModel()
            x, g = seen[layer]
            try:
                found = rule(layer, x, g, examples)
            except RuntimeError as error:  # shapes that no rule expects
                raise UnsupportedModel() from error
            parts += [(place, found[name]) for name, place in places.items()]
    return ExampleGradients(losses.detach().float(), parts, examples, part.count)


def _owners(module: nn.Module, part: Flat) -> tuple[dict[nn.Module, tuple[Rule, dict[str, slice]]], dict[str, slice]]:
    """Where the parameters that are trained are used, and their places.

    Returns:
        The layers, each with its rule and its own parameters by name; and the parameters of no layer, by name.
    """
    layers: dict[nn.Module, tuple[Rule, dict[str, slice]]] = {}
    loose: dict[str, slice] = {}
    for name, parameter, place in part.layout:
        owner, _, own = name.rpartition(".")
        layer = module.get_submodule(owner)
        rule = _rule_of(layer)
        if rule is not None:
            layers.setdefault(layer, (rule, {}))[1][own] = place
        elif parameter.ndim > 1 and len(parameter) == 1:
            loose[name] = place
        else:
            raise UnsupportedModel()
    return layers, loose


def _copies(parameter: nn.Parameter, examples: int) -> Tensor:
    """A parameter whose first dimension is 1, once for each example; shape (examples, ...)."""
    return parameter.detach().expand(examples, *parameter.shape[1:]).clone().requires_grad_()


@contextmanager
def _without_own_gradients(part: Flat) -> Iterator[None]:
    """Context in which the backward pass leaves out the parameters."""
    part.requires_grad(False)
    try:
        yield
    finally:
        part.requires_grad(True)


@contextmanager
def _tapped(seen: dict[nn.Module, list[Tensor]], anchor: Tensor) -> Iterator[None]:
    """Context in which a layer that is called has its input noted; in the backward pass, the gradient of its output."""

    def tap(layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if len(arguments) != 1 or not isinstance(output, Tensor) or not output.ndim:
            raise UnsupportedModel()
        seen[layer].append(arguments[0].detach())
        if not output.requires_grad:
            output.add_(anchor)
        # A hook sees the gradient of the output as it is now, also where code after it writes to that memory.
        output.register_hook(seen[layer].append)  # type: ignore[no-untyped-call]

    taps = [layer.register_forward_hook(tap) for layer in seen]
    try:
        yield
    finally:
        for handle in taps:
            handle.remove()
