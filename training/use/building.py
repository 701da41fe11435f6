"""Rebuilds a trained model from its card and its saved values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from dpeer.exceptions import CheckpointError, ConfigurationError, DpeerError, TaskError
from dpeer.training.loading import load_task
from dpeer.training.models import build_model
from dpeer.training.models.scaling import scale_outputs, standardize
from dpeer.training.randomness import undisturbed
from dpeer.training.tasks import Choices


def restored(card: Mapping[str, Any], saved: Path, module: nn.Module | None = None) -> nn.Module:
    """The model, in evaluation mode.

    Args:
        card: The content of model.json.
        saved: Its model.safetensors.
        module: A model of the same make, which gets the saved values; it is made by the card if None.

    Raises:
        CheckpointError: The saved values cannot be read, or are of another model.
        ConfigurationError: The card has no recipe of the model, and no module was given.
    """
    if module is not None and not isinstance(module, nn.Module):
        raise ConfigurationError(f"module = {type(module).__name__}: expected a torch.nn.Module of the model's make")
    try:
        values = load_file(saved)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{str(saved)!r} cannot be read: {error}") from error
    if module is None:
        with undisturbed():  # whoever calls draws on as if nothing had been drawn here
            module = _built(card, saved)
    _check_alike(module, values, saved)
    module.load_state_dict(values, strict=False)
    return module.eval()


def _built(card: Mapping[str, Any], saved: Path) -> nn.Module:
    built = card.get("model")
    if built is None:
        return _by_factory(card, saved)
    try:
        shape = tuple(int(size) for size in built["shape"])
        options, tokens = built.get("options") or {}, bool(built.get("tokens"))
        module = build_model(str(built["model"]), shape, int(built["outputs"]), options, tokens=tokens)
        if built["standardize"]:
            standardize(module, torch.zeros(1, *shape))
        if built.get("scales_outputs"):
            scale_outputs(module, 0.0, 1.0)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the card of {str(saved)!r} is damaged: {error!r}") from error
    return module


def _by_factory(card: Mapping[str, Any], saved: Path) -> nn.Module:
    """The model of a user's own task, made as in the run."""
    spec, factory = str(card.get("task")), card.get("factory")
    rank = (card.get("federation") or {}).get("rank")
    advice = "; hand a model of the same make over: dpeer.load_model(folder, module=...)"
    if not isinstance(factory, Mapping) or not isinstance(rank, int) or ":" not in spec:
        raise ConfigurationError(f"the card of {str(saved)!r} does not say how the model is made{advice}")
    seed = factory.get("seed") or 0
    first = {
        name: seed if factory.get(name) is None else int(factory[name]) for name in ("seed_partition", "seed_init")
    }
    try:
        task = load_task(
            spec, rank, int(factory.get("size") or 1), first["seed_partition"], factory.get("task_options"),
            Choices(head=factory.get("head")), init_seed=first["seed_init"],
        )  # fmt: skip
    except DpeerError as error:
        raise TaskError(f"the model is made by its task's factory, and {error}{advice}") from error
    return task.model


def _check_alike(module: nn.Module, values: Mapping[str, Tensor], saved: Path) -> None:
    """Hold the saved values against the model's own, by name and shape.

    Raises:
        CheckpointError: They differ.
    """
    own = {name: value for name, value in module.state_dict().items() if isinstance(value, Tensor)}
    missing, strange = sorted(own.keys() - values.keys()), sorted(values.keys() - own.keys())
    if missing or strange:
        which = f"lacks {missing[0]!r}" if missing else f"has {strange[0]!r}, which the model has not"
        raise CheckpointError(f"{str(saved)!r} {which}: it is of another model")
    for name, value in own.items():
        if value.shape != values[name].shape:
            raise CheckpointError(
                f"{str(saved)!r}: {name!r} has shape {tuple(values[name].shape)}, the model's {tuple(value.shape)}: it "
                "is of another model"
            )
