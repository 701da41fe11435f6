"""The numbers that steer local training."""

from __future__ import annotations

from pydantic import ConfigDict

from dpeer.training.settings import StepSettings, WireSettings


class Hyperparameters(StepSettings, WireSettings):
    """What every algorithm's local steps are made with, and how what they made travels; frozen.

    `StepSettings` and `WireSettings` say each value's type, default, limits and meaning. What only some algorithms have
    is in their `Options`. The defaults suit small models; the papers' values are presets.

    Raises:
        pydantic.ValidationError: A value is of another type or beyond its limits.
    """

    model_config = ConfigDict(frozen=True)
