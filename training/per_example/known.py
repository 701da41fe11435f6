"""Which models are known to keep the rows of a batch apart and in order, whatever the values are.

Per-example gradients by layers take it that the rows which go into a layer belong to the examples in their order. A
model that sorts a batch by length, sends examples to experts, or adds a little of their mean to each, gives about the
right outputs and puts other rows there, perhaps only for values that no look at some examples meets. Of code that
anybody may have written that cannot be found out. So by layers are computed only models that are made of modules whose
forward passes are known; all others are computed by `vmap`, which runs the code for each example by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.modules import module as everywhere

_OF_TORCH = (
    "activation", "container", "conv", "flatten", "linear", "normalization", "padding", "pooling", "transformer",
)  # fmt: skip

_SOURCES = (
    *(f"torch.nn.modules.{name}" for name in _OF_TORCH),
    "dpeer.training.models",
    "dpeer.training.lora",
    "peft.tuners.lora",
    *(f"transformers.models.{name}" for name in ("bert", "gpt2", "roberta", "swin", "vit")),
    "transformers.activations",
    "transformers.pytorch_utils",
)
"""Where modules are from whose forward passes compute each example's rows from that example alone, in place."""

_SINGLE: tuple[type[nn.Module], ...] = (nn.Embedding, nn.Dropout)
"""Such ones among other modules of torch."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def keeps_examples_apart(module: nn.Module) -> bool:
    """Whether a model consists of modules that are known to, and nothing was hung onto them."""
    if any(getattr(everywhere, f"_global{name}", None) for name in _HOOKS):
        return False
    return not any(True for _ in _unknown(module))


def _unknown(module: nn.Module) -> Iterator[nn.Module]:
    for layer in module.modules():
        own: dict[str, Any] = vars(layer)
        altered = "forward" in own or any(own.get(name) for name in _HOOKS)
        if altered or not _is_known(type(layer)):
            yield layer


def _is_known(kind: type[nn.Module]) -> bool:
    # The very class: one derived from it may do anything.
    source = kind.__module__
    return kind in _SINGLE or any(source == known or source.startswith(f"{known}.") for known in _SOURCES)
