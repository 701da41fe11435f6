"""The numbers that steer local training."""

from __future__ import annotations

from pydantic import ConfigDict

from dpeer.training.settings import StepSettings, WireSettings


class Hyperparameters(StepSettings, WireSettings):
    """The settings of every algorithm's local steps, and of how bodies travel; frozen.

    `StepSettings` and `WireSettings` say each value's type, default, limits and meaning. What only some algorithms use
    is in their `Options`. The defaults suit small models; the papers' values are presets.

    Raises:
        pydantic.ValidationError: A value is of another type or beyond its limits.
    """

    model_config = ConfigDict(frozen=True)
