"""The values of a model whose adapters are merged into the layers that they adapt."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_WRAPPED = "base_layer"
"""What peft calls the layer that an adapter is around."""


def merged(model: nn.Module) -> dict[str, Tensor]:
    """The values of the model as it would be without adapters, by its own state names; nothing of it is changed.

    Args:
        model: A model that `adapted` has put adapters into.

    Returns:
        Of each adapted layer W + (alpha / r) B A; everything else as it is, not copied.
    """
    from peft.tuners.lora import LoraLayer

    values = {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
    for name, layer in model.named_modules():
        if not isinstance(layer, LoraLayer):
            continue
        inside = {key for key in values if key.startswith(f"{name}.")}
        own = f"{name}.{_WRAPPED}."
        kept = {f"{name}.{key.removeprefix(own)}": values[key] for key in inside if key.startswith(own)}
        kept[f"{name}.weight"] = _sum(layer, kept[f"{name}.weight"])
        for key in inside:
            del values[key]
        values |= kept
    return values


@torch.no_grad()
def _sum(layer: Any, weight: Tensor) -> Tensor:
    """The weight with the adapters' part, in the weight's type."""
    for adapter in layer.active_adapters:
        weight = (weight.float() + layer.get_delta_weight(adapter).float()).to(weight.dtype)
    return weight
