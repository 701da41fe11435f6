"""Which models and losses are known to compute each example from itself alone, whatever the values are.

Several examples are computed at once only by code that is known. A model that sorts a batch by length, sends examples
to experts, catches what an operation raises because of one example, or looks up what lies beside its own values gives
about the right gradients, and puts other examples' there, perhaps only for values that no look at some examples meets.
Of code that anybody may have written that cannot be found out. So all other models are computed one by one, unless
their author answers for them (`Task.vmap`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules import loss as losses
from torch.nn.modules import module as everywhere

_SOURCES = ("dpeer.training.models",)
"""Where models are from whose forward passes keep examples apart, given parts that do."""

_PARTS_OF_THOSE = (
    *(f"transformers.models.{name}" for name in ("bert", "gpt2", "roberta", "swin", "vit")),
    "transformers.activations",
    "transformers.pytorch_utils",
)
"""Where such models have parts from; by themselves these may look at several examples, such as at all masks."""

_ADAPTERS = "peft.tuners.lora"

_OURS = ("dpeer.training",)
"""Where hooks are from that change nothing of it: what scales inputs, and what keeps torch from quicker paths."""

_LAYERS: frozenset[type[nn.Module]] = frozenset({
    nn.Identity, nn.Sequential, nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict,
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.Dropout,
    nn.TransformerEncoder,
    nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d,
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d,
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.Tanh,
    nn.Softplus, nn.Softsign, nn.Tanhshrink, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid,
    nn.modules.linear.NonDynamicallyQuantizableLinear,
})  # fmt: skip
"""Modules of torch that keep examples apart whatever their settings are."""


def _within(dim: int | None) -> bool:
    """Whether a dimension cannot be that of the examples."""
    return dim is not None and (dim == -1 or dim >= 1)


_WITH_SETTINGS: Mapping[type[nn.Module], Callable[[Any], bool]] = {
    nn.Flatten: lambda layer: _within(layer.start_dim) and _within(layer.end_dim),
    nn.Unflatten: lambda layer: _within(layer.dim),
    nn.Softmax: lambda layer: _within(layer.dim),
    nn.LogSoftmax: lambda layer: _within(layer.dim),
    nn.GLU: lambda layer: _within(layer.dim),
    nn.Embedding: lambda layer: layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse,
    # With the batch in the second place, examples would be taken for the places of a series.
    nn.MultiheadAttention: lambda layer: bool(layer.batch_first),
    nn.TransformerEncoderLayer: lambda layer: bool(layer.self_attn.batch_first),
}
"""Modules of torch that do so with some settings."""

_FUNCTIONS = (
    torch.relu, torch.tanh, functional.relu, functional.gelu, functional.silu,
    functional.conv1d, functional.conv2d, functional.conv3d,
)  # fmt: skip
"""Functions that a module may have as an attribute and call."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

_LOSSES = (
    functional.cross_entropy, functional.nll_loss, functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss,
    functional.huber_loss, functional.binary_cross_entropy, functional.binary_cross_entropy_with_logits,
)  # fmt: skip


def keeps_examples_apart(module: nn.Module) -> bool:
    """Whether a model consists of modules that are known to, and nothing was hung onto them."""
    if any(getattr(everywhere, f"_global{name}", None) for name in _HOOKS):
        return False
    return not any(True for _ in _unknown(module, within=False))


def computes_alone(loss: Any) -> bool:
    """Whether a loss is torch's own or a built-in one, which computes each example from its output and target alone."""
    if isinstance(loss, nn.Module):
        kind = type(loss)
        known = kind.__module__ == losses.__name__ or _is_of(kind, _SOURCES)
        return known and not any(True for _ in _altered(loss))
    return any(loss is one for one in _LOSSES)


def _unknown(layer: nn.Module, *, within: bool) -> Iterator[nn.Module]:
    """The modules of a model of which nothing is known.

    Args:
        layer: Where to begin.
        within: Whether it is a part of a model that is known.
    """
    kind = type(layer)  # the very class: one derived from it may do anything
    ours = within or _is_of(kind, _SOURCES)
    sources = (*_SOURCES, _ADAPTERS, *(_PARTS_OF_THOSE if ours else ()))
    suits = _WITH_SETTINGS.get(kind, lambda _: kind in _LAYERS)
    if any(True for _ in _altered(layer)) or not (suits(layer) or _is_of(kind, sources)):
        yield layer
    for child in layer.children():
        yield from _unknown(child, within=ours)


def _altered(layer: nn.Module) -> Iterator[str]:
    """What was given to a module besides its class's code."""
    for name, value in vars(layer).items():
        hooks = value.values() if name in _HOOKS else ()
        if any(not _is_of(hook, _OURS) for hook in hooks):
            yield name
        # Such as a function for the activation, or another `forward`.
        if callable(value) and not isinstance(value, nn.Module) and not any(value is known for known in _FUNCTIONS):
            yield name


def _is_of(what: Any, sources: tuple[str, ...]) -> bool:
    """Whether a class or a function is defined in one of these modules or packages."""
    source = getattr(what, "__module__", None) or ""
    return any(source == known or source.startswith(f"{known}.") for known in sources)
