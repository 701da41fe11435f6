"""Per-example gradients from what goes into each layer, and from the gradient of what comes out of it.

One forward pass of all examples together and one backward pass, in which the gradients of parameters are left out:
these are made here, for each example, from the two (Goodfellow, Efficient Per-Example Gradient Computations, 2015).
Those of a linear layer are outer products and never lie in memory.

That the model keeps examples apart, and uses its parameters in no other way than by calling their layers, is not known
here: whoever uses this has compared it with `one_by_one` (`dpeer.training.per_example.choosing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpeer.training.batches import predict
from dpeer.training.errors import blame
from dpeer.training.flat import Flat
from dpeer.training.per_example.parts import Computed, Outer, Part, Whole
from dpeer.training.per_example.ways import Unsuited, losses_of

if TYPE_CHECKING:
    from dpeer.training.trainer import Trainer

Rule = Callable[[Any, Tensor, Tensor], Mapping[str, Part]]
"""Of a layer, its input and the gradient of its output (both with the examples first), its parameters' gradients."""


def by_layers(peer: Trainer, part: Flat, inputs: Any, targets: Any, examples: int) -> Computed:
    """All examples together, by hooks on the layers; takes memory for what goes in and out of layers.

    Convolutions, norms and embeddings also take it for their own gradients, one for each example; and a convolution for
    each place of its output what the filter sees there.

    Raises:
        Unsuited: A parameter is of a layer that is not known here, or that is not called exactly once.
    """
    layers = _layers(peer.module, part)
    seen: dict[nn.Module, list[Tensor]] = {layer: [] for layer in layers}
    anchor = torch.zeros((), device=part.data.device, requires_grad=True)
    with _without_own_gradients(part), _tapped(seen, anchor), torch.enable_grad():
        with blame("the task's model or loss failed on a training batch"):
            losses = losses_of(peer, predict(peer.module, inputs), targets, examples)
        torch.autograd.grad(losses.sum(), anchor, allow_unused=True)
    parts: list[tuple[slice, Part]] = []
    for layer, places in layers.items():
        if len(seen[layer]) == 1:  # nothing that is made small depends on it
            continue
        if len(seen[layer]) != 2 or any(len(tensor) != examples for tensor in seen[layer]):
            raise Unsuited()
        found = _RULES[type(layer)](layer, *seen[layer])
        parts += [(place, found[name]) for name, place in places.items()]
    return Computed(losses.detach().float(), parts, examples, part.count)


def _layers(module: nn.Module, part: Flat) -> dict[nn.Module, dict[str, slice]]:
    """The layers whose parameters are trained, with the names and places of these."""
    layers: dict[nn.Module, dict[str, slice]] = {}
    for name, _, place in part.layout:
        owner, _, own = name.rpartition(".")
        layer = module.get_submodule(owner)
        if type(layer) not in _RULES or not _usual(layer):
            raise Unsuited()
        layers.setdefault(layer, {})[own] = place
    return layers


def _usual(layer: nn.Module) -> bool:
    """Whether a layer does only what its rule knows of."""
    match layer:
        case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
            return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        case nn.Embedding():
            return layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse
    return True


@contextmanager
def _without_own_gradients(part: Flat) -> Iterator[None]:
    """Within it the backward pass leaves out the parameters."""
    part.requires_grad(False)
    try:
        yield
    finally:
        part.requires_grad(True)


@contextmanager
def _tapped(seen: dict[nn.Module, list[Tensor]], anchor: Tensor) -> Iterator[None]:
    """Within it a layer that is called has its input noted; in the backward pass, the gradient of its output.

    Args:
        seen: Gets these for each layer, in this order.
        anchor: Zero, of which a gradient is asked: everything after the first layer depends on it.
    """

    def tap(layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        if len(arguments) != 1 or not isinstance(output, Tensor):
            raise Unsuited()
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


def _linear(layer: nn.Linear, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    if x.ndim == 2:
        return {"weight": Outer(g, x), "bias": Whole(g)}
    x, g = x.reshape(len(x), -1, layer.in_features), g.reshape(len(g), -1, layer.out_features)
    return {"weight": Whole((g.transpose(1, 2) @ x).flatten(1)), "bias": Whole(g.sum(1))}


def _convolution(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    padding = [int(width) for width in layer.padding]
    x = functional.pad(x, [width for width in reversed(padding) for _ in range(2)])
    # What the filter sees at each place, by strides: quicker than `unfold`, and for any number of dimensions.
    along = x.stride()[2:]
    seen = x.as_strided(
        (*x.shape[:2], *layer.kernel_size, *g.shape[2:]),
        (
            *x.stride()[:2],
            *(step * stride for step, stride in zip(layer.dilation, along, strict=True)),
            *(step * stride for step, stride in zip(layer.stride, along, strict=True)),
        ),
    )
    left = g.reshape(len(g), layer.groups, layer.out_channels // layer.groups, -1)
    right = seen.reshape(len(g), layer.groups, -1, left.shape[3])
    return {"weight": Whole((left @ right.transpose(2, 3)).flatten(1)), "bias": Whole(g.flatten(2).sum(2))}


def _group_norm(layer: nn.GroupNorm, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    normal = functional.group_norm(x, layer.num_groups, eps=layer.eps)
    shape = (len(x), layer.num_channels, -1)
    return {"weight": Whole((g * normal).reshape(shape).sum(2)), "bias": Whole(g.reshape(shape).sum(2))}


def _layer_norm(layer: nn.LayerNorm, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    normal = functional.layer_norm(x, list(layer.normalized_shape), eps=layer.eps)
    shape = (len(x), -1, torch.Size(layer.normalized_shape).numel())
    return {"weight": Whole((g * normal).reshape(shape).sum(1)), "bias": Whole(g.reshape(shape).sum(1))}


def _embedding(layer: nn.Embedding, x: Tensor, g: Tensor) -> Mapping[str, Part]:
    rows, width = layer.num_embeddings, layer.embedding_dim
    first = torch.arange(len(x), device=x.device) * rows
    places = x.reshape(len(x), -1) + first[:, None]
    found = g.new_zeros(len(x) * rows, width).index_add_(0, places.reshape(-1), g.reshape(-1, width))
    found = found.reshape(len(x), rows, width)
    if layer.padding_idx is not None:
        found[:, layer.padding_idx] = 0.0
    return {"weight": Whole(found.flatten(1))}


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
