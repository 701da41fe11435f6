"""The built-in models, by the name that ``--model`` takes; each is imported when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from dpeer.exceptions import TaskError, UnknownName


@dataclass(frozen=True)
class Model:
    """A built-in model.

    Attributes:
        name: What ``--model`` calls it.
        summary: One line about it.
        where: ``module:function``; the function makes it from (shape, outputs).
        dimensions: How many dimensions one input must have: 3 for images (channels, height, width), 2 for series
            (channels, length); None for any.
        least: The smallest height and width, or length, that it takes.
    """

    name: str
    summary: str
    where: str
    dimensions: int | None
    least: int = 1


MODELS: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model("cnn", "three strided convolutions, for images on a CPU", "small:cnn", 3, 8),
        Model("digits", "three convolutions for 8x8 digits, 15,498 parameters", "small:digits", 3, 5),
        Model("resnet18-gn", "ResNet-18 with GroupNorm, 11 million parameters", "resnet:resnet18_gn", 3, 8),
        Model("dp-cnn", "private learning papers' for CIFAR-10, 667,402 parameters", "published:dp_cnn", 3, 22),
        Model("emnist-cnn", "federated papers' for EMNIST, 1.2 million parameters", "published:emnist_cnn", 3, 6),
        Model("fedavg-cnn", "FedAvg's for MNIST, 1.7 million parameters", "published:fedavg_cnn", 3, 4),
        Model("cnn1d", "three strided convolutions over time, for series", "plain:cnn1d", 2, 8),
        Model("mlp", "one hidden layer of 64, for tables; takes anything, flattened", "plain:mlp", None),
        Model(
            "small-body", "1,548 parameters to share, on frozen random features; for privacy", "frozen:small_body", None
        ),
    )
}
"""Every built-in model by its name."""


def build_model(name: str, shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Make a model with fresh weights from torch's global generator.

    Args:
        name: One of `MODELS`.
        shape: One input's shape.
        outputs: How many numbers it gives a sample: the classes, or 1.

    Raises:
        UnknownName: There is no such model.
        TaskError: It does not take such inputs.
    """
    if name not in MODELS:
        raise UnknownName("model", name, sorted(MODELS))
    model = MODELS[name]
    if not _fits(model, shape):
        fitting = ", ".join(other.name for other in MODELS.values() if _fits(other, shape))
        raise TaskError(f"--model {name} takes {_wanted(model)}, the task's inputs have shape {shape}; try {fitting}")
    module, _, function = model.where.partition(":")
    make: Callable[[tuple[int, ...], int], nn.Module] = getattr(
        importlib.import_module(f"dpeer.training.models.{module}"), function
    )
    return make(shape, outputs)


def _fits(model: Model, shape: tuple[int, ...]) -> bool:
    return model.dimensions in (None, len(shape)) and all(size >= model.least for size in shape[1:])


def _wanted(model: Model) -> str:
    least = f"{model.least} x {model.least} pixels" if model.dimensions == 3 else f"{model.least} steps"
    what = "images (channels, height, width)" if model.dimensions == 3 else "series (channels, length)"
    return f"{what} of at least {least}"


def last_linear(model: nn.Module) -> str:
    """The name of the last linear layer, which is the head where nobody says otherwise.

    Raises:
        TaskError: There is none.
    """
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not names:
        raise TaskError("the model has no linear layer that could be the head: name the head with --head")
    return str(names[-1])
