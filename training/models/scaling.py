"""Scaling inside the model, so that a saved model takes raw inputs and predicts in the targets' own unit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

BUFFERS = ("input_mean", "input_std", "output_centre", "output_scale")
"""The names of what is scaled by, which a model has from its peer's own data."""


def standardize(model: nn.Module, inputs: Tensor) -> None:
    """Have the model subtract each channel's mean from its input and divide by its standard deviation.

    Both become buffers of the model, ``input_mean`` and ``input_std``: they are saved with it and never travel. To load
    a saved model, any inputs make the buffers, such as ``torch.zeros(1, *shape)``. The training inputs have shape
    (samples, channels or features, ...); what never changes is only centred.
    """
    # Channel by channel: a copy of all inputs in float64 may be more than fits.
    moments = [_moments(inputs[:, channel]) for channel in range(inputs.shape[1])]
    shape = (1, -1) + (1,) * (inputs.ndim - 2)
    std, mean = (torch.tensor(numbers, dtype=torch.float32).view(shape) for numbers in zip(*moments, strict=True))
    model.register_buffer("input_mean", mean)
    model.register_buffer("input_std", std)
    model.register_forward_pre_hook(_scale)


def scale_outputs(model: nn.Module, centre: float, scale: float) -> None:
    """Have the model multiply what it computes by `scale` and add `centre`, so that it computes numbers around one.

    Both become buffers of the model, ``output_centre`` and ``output_scale``: they are saved with it and never travel.
    To load a saved model, any numbers make the buffers.
    """
    model.register_buffer("output_centre", torch.tensor(centre))
    model.register_buffer("output_scale", torch.tensor(scale))
    model.register_forward_hook(_unscale)


class ScaledLoss(nn.MSELoss):
    """The squared error in units of `scale`: as if the targets had been divided by it."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean over a batch."""
        return mse_loss(outputs / self.scale, targets / self.scale)


def target_scale(targets: Tensor, ends: tuple[float, float] | None, *, own: bool) -> tuple[float, float] | None:
    """The centre and scale for numbers to predict, as for an input that is a number.

    They are mean and deviation of the training targets if anything may be computed from these (`own`), else follow from
    the plausible range. None where nothing is known: numbers are predicted as they are.
    """
    if own:
        std, mean = _moments(targets)
        return mean, std
    return None if ends is None else ((ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2)


def _moments(values: Tensor) -> tuple[float, float]:
    """Standard deviation and mean; the former is 1 where float32 could not divide by it."""
    std, mean = torch.std_mean(values.double(), correction=0)
    # Rounding gives equal numbers a deviation, too.
    varies = values.amin() < values.amax() and std.float() >= torch.finfo(torch.float32).tiny
    return std.item() if varies else 1.0, mean.item()


def _scale(model: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    first, *rest = inputs
    return ((first - model.input_mean) / model.input_std, *rest)


def _unscale(model: nn.Module, inputs: tuple[Any, ...], outputs: Tensor) -> Tensor:
    scale, centre = model.get_buffer("output_scale"), model.get_buffer("output_centre")
    return outputs * scale + centre
