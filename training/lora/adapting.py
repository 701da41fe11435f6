"""Low-rank adapters: which layers get one, and the model with them and without."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from dpeer.exceptions import TaskError, did_you_mean
from dpeer.optional_libraries import check_libraries
from dpeer.training.lora import Lora
from dpeer.training.models import last_layer
from dpeer.training.randomness import Purpose, seed_globals, stream
from dpeer.training.split import is_under
from dpeer.training.task import Task


def adapted(task: Task, text: str, seed: int) -> Task:
    """The task with adapters in its model; the caller holds `LOCK`, for the first values are drawn.

    What is trained from now on are the adapters and the head, or where all is shared the last linear layer in its
    place; all else is frozen. An adapter changes nothing at first: of its two factors one is zero. The other one is
    drawn from a seed that all peers have in common, whatever the task has drawn before. The model is changed in place.

    Raises:
        TaskError: No layer is meant, or the model has adapters already.
        ConfigurationError: The library peft is not installed.
    """
    lora = Lora.parse(text)
    model, head = task.model, tuple(task.head)
    layers = chosen(model, head, lora.targets, text)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # peft imports what would download
    check_libraries(f"--lora {text}", "lora", peft="peft")
    _check_bare(model, text)
    _check_untied(model, layers, text)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    before = sum(parameter.numel() for layer in layers.values() for parameter in layer.parameters())
    seed_globals(int(stream(seed, Purpose.ADAPT).integers(2**63)))
    whole = head or tuple({last_layer(model)} - {*layers, ""})
    _inject(model, lora, layers)
    for name, parameter in model.named_parameters():
        if is_under(name, whole):
            parameter.requires_grad_(name in trained)
        elif parameter.requires_grad:
            parameter.data = parameter.data.float()  # of a half-precision layer, too: sums of small steps need it
    _call_by_layers(model)
    count = sum(p.numel() for name, p in model.named_parameters() if p.requires_grad and not is_under(name, head))
    return replace(task, lora=text, remarks=(*task.remarks, *_remarks(text, layers, count, before)))


def _inject(model: nn.Module, lora: Lora, layers: Mapping[str, nn.Module]) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    config: Any = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]
        target_modules="|".join(map(re.escape, layers)),
        lora_dropout=0.0,
        bias="none",
    )
    inject_adapter_in_model(config, model)


def _check_bare(model: nn.Module, text: str) -> None:
    from peft.tuners.tuners_utils import BaseTunerLayer

    if found := next((name for name, layer in model.named_modules() if isinstance(layer, BaseTunerLayer)), None):
        raise TaskError(
            f"--lora {text}: {found!r} of the task's model has an adapter of peft already: leave --lora out"
        )


def _check_untied(model: nn.Module, layers: Mapping[str, nn.Module], text: str) -> None:
    """Refuse to adapt a weight that another layer has, too: merged, the two would not be one any more."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for name, layer in layers.items():
        for parameter in layer.parameters():
            if len(both := names[id(parameter)]) > 1:
                raise TaskError(
                    f"--lora {text}: the weight of {name!r} is tied ({both[0]!r} and {both[1]!r} are one), so it "
                    "cannot be adapted alone: name other layers with targets="
                )


def _call_by_layers(model: nn.Module) -> None:
    """Have torch's own transformer call its layers in evaluation, too.

    There it computes a whole block from the weights of its layers, so that adapters would be left out. A hook on a
    block keeps it from doing so, and from handing nested tensors to it.
    """
    for layer in model.modules():
        if isinstance(layer, nn.TransformerEncoderLayer):
            layer.register_forward_pre_hook(_nothing)
        elif isinstance(layer, nn.TransformerEncoder):
            layer.use_nested_tensor = False


def _nothing(layer: nn.Module, arguments: tuple[Any, ...]) -> None:
    """A hook without effect, of the module's own level so that a model with it can be pickled."""


def _remarks(text: str, layers: Mapping[str, nn.Module], count: int, before: int) -> list[str]:
    parts = dict.fromkeys(name.rpartition(".")[2] for name in layers)
    names = ", ".join([*parts][:4]) + (", ..." if len(parts) > 4 else "")
    line = f"lora {text}: {len(layers)} layers are adapted ({names}) by {count:,} parameters, all else is frozen"
    if count >= before:
        return [line, f"these are no fewer than the {before:,} of the layers: a smaller r would send less"]
    return [line]


KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding)
"""Layers that can have one."""

QUERY_AND_VALUE = frozenset({
    "query", "value", "q_proj", "v_proj", "q_lin", "v_lin", "to_q", "to_v", "wq", "wv",
    "qkv", "qkv_proj", "to_qkv", "Wqkv", "c_attn", "query_key_value",
})  # fmt: skip
"""What libraries call the layers that make queries and values in attention, or these and keys in one.

Adapting queries and values, and not keys, is what peft does by default for ViT, RoBERTa and many others.
"""


def adaptable(model: nn.Module, head: Sequence[str]) -> dict[str, nn.Module]:
    """The layers outside of the head that can have an adapter, by name."""
    # Attention of torch uses the weights of its layers without calling them, so that an adapter would do nothing there.
    attention = (layer for layer in model.modules() if isinstance(layer, nn.MultiheadAttention))
    within = {id(one) for layer in attention for one in layer.modules()}
    return {
        name: layer
        for name, layer in model.named_modules()
        if name and isinstance(layer, KINDS) and not is_under(name, head) and id(layer) not in within
    }


def chosen(model: nn.Module, head: Sequence[str], targets: Sequence[str], text: str) -> dict[str, nn.Module]:
    """The layers that get an adapter, by name; the head gets none: it is trained as it is.

    Raises:
        TaskError: The model has none, or a target is the name of none; the message names the nearest.
    """
    there = adaptable(model, head)
    if not targets:
        return _usual(there, text)
    found: dict[str, nn.Module] = {}
    for target in targets:
        named = {name: layer for name, layer in there.items() if name == target or name.endswith(f".{target}")}
        if not named:
            parts = dict.fromkeys(part for name in there for part in (name, name.rpartition(".")[2]))
            raise TaskError(
                f"--lora {text}: the target {target!r} is no layer that can be adapted: "
                f"{did_you_mean(target, parts)}such are linear layers, convolutions and embeddings outside of the head"
            )
        found |= named
    return {name: found[name] for name in there if name in found}


def _usual(there: dict[str, nn.Module], text: str) -> dict[str, nn.Module]:
    """Queries and values where the model has such, else all linear layers and convolutions."""
    attention = {name: layer for name, layer in there.items() if name.rpartition(".")[2] in QUERY_AND_VALUE}
    found = attention or {name: layer for name, layer in there.items() if not isinstance(layer, nn.Embedding)}
    if not found:
        raise TaskError(
            f"--lora {text}: outside of its head the model has no linear layer or convolution that could be adapted: "
            "leave --lora out, or name a smaller head with --head"
        )
    return found


_WRAPPED = "base_layer"
"""What peft calls the layer that an adapter is around."""


def merged(model: nn.Module) -> dict[str, Tensor]:
    """The values of an adapted model as it would be without adapters, by its own state names; nothing of it is changed.

    Of each adapted layer these are W + (alpha / r) B A; everything else is as it is, not copied.
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
    for adapter in layer.active_adapters:
        weight = (weight.float() + layer.get_delta_weight(adapter).float()).to(weight.dtype)
    return weight
