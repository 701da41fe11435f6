"""Separable layers and losses: those whose examples may be computed together; all others are computed one by one.

Several examples are computed at once only by such code. A model that sorts a batch by length, or sends examples to
experts, puts other examples' gradients into an example's, perhaps only for rare values. So other models are computed
one by one, unless their author vouches for them (`Task.vmap`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules import loss as losses
from torch.nn.modules import module as everywhere

SOURCES = ("dpeer.training.models",)
"""Packages of models whose forward passes keep examples apart, given parts that do."""

_PARTS_OF_THOSE = (
    *(f"transformers.models.{name}" for name in ("bert", "roberta", "swin", "vit")),
    "transformers.activations",
    "transformers.pytorch_utils",
)
"""Packages of their parts; by themselves these may look at several examples, such as at all masks."""

_ADAPTERS = "peft.tuners.lora"

_OURS = ("dpeer.training",)
"""Packages of hooks that change nothing of it: what scales inputs, and what keeps torch from quicker paths."""

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
"""Modules of torch that keep examples apart with some settings."""

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


def is_known_model(module: nn.Module) -> bool:
    """Whether a model consists of modules that keep examples apart, without hooks or other code of a user's."""
    return not any(getattr(everywhere, f"_global{name}", None) for name in _HOOKS) and _is_known(module, within=False)


def is_known_loss(loss: Any) -> bool:
    """Whether a loss is torch's own or a built-in one, which computes each example from its output and target alone."""
    if isinstance(loss, nn.Module):
        return (type(loss).__module__ == losses.__name__ or _is_of(type(loss), SOURCES)) and not _is_altered(loss)
    return any(loss is one for one in _LOSSES)


def _is_known(layer: nn.Module, *, within: bool) -> bool:
    """Whether a module and all that it consists of are known.

    Args:
        layer: The module.
        within: Whether it is a part of a model of `SOURCES`.
    """
    kind = type(layer)  # the very class: one derived from it may do anything
    within = within or _is_of(kind, SOURCES)
    sources = (*SOURCES, _ADAPTERS, *(_PARTS_OF_THOSE if within else ()))
    suits = _WITH_SETTINGS.get(kind, lambda _: kind in _LAYERS)
    known = not _is_altered(layer) and (suits(layer) or _is_of(kind, sources))
    return known and all(_is_known(child, within=within) for child in layer.children())


def _is_altered(layer: nn.Module) -> bool:
    """Whether a module has hooks or functions besides its class's code: an activation, or another `forward`."""
    for name, value in vars(layer).items():
        hooks = value.values() if name in _HOOKS else ()
        function = callable(value) and not isinstance(value, nn.Module)
        if any(not _is_of(hook, _OURS) for hook in hooks) or (function and not any(value is f for f in _FUNCTIONS)):
            return True
    return False


def _is_of(what: Any, sources: tuple[str, ...]) -> bool:
    """Whether a class or a function is defined in one of these modules or packages."""
    source = getattr(what, "__module__", None) or ""
    return any(source == known or source.startswith(f"{known}.") for known in sources)
