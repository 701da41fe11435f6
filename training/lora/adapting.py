"""Putting low-rank adapters into a task's model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from dpeer.exceptions import TaskError
from dpeer.optional_libraries import check_libraries
from dpeer.training.lora.lora_setting import Lora
from dpeer.training.lora.targets import chosen, is_transposed
from dpeer.training.models import last_layer
from dpeer.training.randomness import Purpose, seed_globals, stream
from dpeer.training.split import is_under
from dpeer.training.task import Task


def adapted(task: Task, text: str, init_seed: int) -> Task:
    """The task with adapters in its model; the caller holds `LOCK`, for the first values are drawn.

    What is trained from now on are the adapters and the head, or where all is shared the last linear layer in its
    place; all else is frozen. An adapter changes nothing at first: of its two factors one is zero. The other one is
    drawn from a seed that all peers have in common, whatever the task has drawn before.

    Args:
        task: The task; its model is changed in place.
        text: What `Lora.parse` reads.
        init_seed: The seed of the model's first weights.

    Raises:
        TaskError: No layer is meant, or the model has adapters already.
        ConfigurationError: The library peft is not installed.
    """
    lora = Lora.parse(text)
    model, head = task.model, tuple(task.head)
    layers = chosen(model, head, lora.targets, text)
    if len(kinds := {is_transposed(layer) for layer in layers.values()}) > 1:
        one = next(name for name, layer in layers.items() if is_transposed(layer))
        raise TaskError(
            f"--lora {text}: {one!r} is a Conv1D of transformers and other layers are not: name layers of one of the "
            "two kinds with targets="
        )
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # peft imports what would download
    check_libraries(f"--lora {text}", "lora", peft="peft")
    _check_bare(model, text)
    _check_untied(model, layers, text)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    before = sum(parameter.numel() for layer in layers.values() for parameter in layer.parameters())
    seed_globals(int(stream(init_seed, Purpose.ADAPT).integers(2**63)))
    whole = head or tuple({last_layer(model)} - {*layers, ""})
    _inject(model, lora, layers, transposed=kinds.pop())
    for name, parameter in model.named_parameters():
        if is_under(name, whole):
            parameter.requires_grad_(name in trained)
        elif parameter.requires_grad:
            parameter.data = parameter.data.float()  # of a half-precision layer, too: sums of small steps need it
    _call_by_layers(model)
    count = sum(p.numel() for name, p in model.named_parameters() if p.requires_grad and not is_under(name, head))
    return replace(task, lora=text, remarks=(*task.remarks, *_remarks(text, layers, count, before)))


def _inject(model: nn.Module, lora: Lora, layers: Mapping[str, nn.Module], *, transposed: bool) -> None:
    """Have peft wrap the layers."""
    from peft import LoraConfig, inject_adapter_in_model

    config: Any = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]
        target_modules="|".join(map(re.escape, layers)),
        lora_dropout=0.0,
        bias="none",
        fan_in_fan_out=transposed,
    )
    inject_adapter_in_model(config, model)


def _check_bare(model: nn.Module, text: str) -> None:
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, layer in model.named_modules():
        if isinstance(layer, BaseTunerLayer):
            raise TaskError(
                f"--lora {text}: {name!r} of the task's model has an adapter of peft already: leave --lora out"
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
    """A hook that does nothing, but is there."""


def _remarks(text: str, layers: Mapping[str, nn.Module], count: int, before: int) -> list[str]:
    parts = dict.fromkeys(name.rpartition(".")[2] for name in layers)
    names = ", ".join([*parts][:4]) + (", ..." if len(parts) > 4 else "")
    line = f"lora {text}: {len(layers)} layers are adapted ({names}) by {count:,} parameters, all else is frozen"
    if count >= before:
        return [line, f"these are no fewer than the {before:,} of the layers: a smaller r would send less"]
    return [line]
