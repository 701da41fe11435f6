"""Scaling inputs inside the model, so that a saved model predicts on raw inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def standardize(model: nn.Module, inputs: Tensor) -> None:
    """Have the model subtract each channel's mean from its input and divide by its standard deviation.

    Both become buffers of the model, ``input_mean`` and ``input_std``: they are saved with it and never travel. To load
    a saved model, any inputs make the buffers, such as ``torch.zeros(1, *shape)``.

    Args:
        model: The model; changed in place.
        inputs: The training inputs, shape (samples, channels or features, ...). One that never changes is only centred.
    """
    # Channel by channel: a copy of all inputs in float64 may be more than fits.
    moments = [_moments(inputs[:, channel]) for channel in range(inputs.shape[1])]
    shape = (1, -1) + (1,) * (inputs.ndim - 2)
    std, mean = (torch.tensor(numbers, dtype=torch.float32).view(shape) for numbers in zip(*moments, strict=True))
    model.register_buffer("input_mean", mean)
    model.register_buffer("input_std", std)
    model.register_forward_pre_hook(_scale)


def _moments(values: Tensor) -> tuple[float, float]:
    """Standard deviation and mean; for the former 1, where there is none that float32 can divide by."""
    std, mean = torch.std_mean(values.double(), correction=0)
    varies = values.amin() < values.amax() and std.float() > 0  # rounding gives equal numbers a deviation, too
    return std.item() if varies else 1.0, mean.item()


def _scale(model: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    first, *rest = inputs
    return ((first - model.input_mean) / model.input_std, *rest)
