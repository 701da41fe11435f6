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

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dpeer.training.batch_loader import predict
from dpeer.training.dpsgd.backends import UnsupportedModel, losses_of, with_tensors
from dpeer.training.dpsgd.gradient_factors import DenseGradients, ExampleGradients, ParameterGradients
from dpeer.training.dpsgd.layer_rules import LayerRule, rule_of
from dpeer.training.dpsgd.stable_matmul import one_thread, padded_products
from dpeer.training.errors import blame
from dpeer.training.flat import Flat
from dpeer.training.net import Net


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


def _owners(
    module: nn.Module, part: Flat
) -> tuple[dict[nn.Module, tuple[LayerRule, dict[str, slice]]], dict[str, slice]]:
    """Where the parameters that are trained are used, and their places.

    Returns:
        The layers, each with its rule and its own parameters by name; and the parameters of no layer, by name.
    """
    layers: dict[nn.Module, tuple[LayerRule, dict[str, slice]]] = {}
    loose: dict[str, slice] = {}
    for name, parameter, place in part.layout:
        owner, _, own = name.rpartition(".")
        layer = module.get_submodule(owner)
        rule = rule_of(layer)
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
    """Context in which a layer that is called has its input noted; in the backward pass, the gradient of its output.

    Args:
        seen: Gets these for each layer, in this order.
        anchor: Zero, of which a gradient is asked: everything after the first layer depends on it.
    """

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
