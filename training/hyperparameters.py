"""Hyperparameters: the settings of local steps, of the wire and of mixing in one frozen object."""

from __future__ import annotations

from pydantic import ConfigDict

from dpeer.training.settings import MixingSettings, StepSettings, WireSettings


class Hyperparameters(MixingSettings, StepSettings, WireSettings):
    """The settings of every algorithm's local steps, of how bodies travel, and of how they are mixed; frozen.

    The sections say each value's type, default, limits and meaning. What only some algorithms use
    is in their `Options`. The defaults suit small models; the papers' values are presets.

    Raises:
        pydantic.ValidationError: A value is of another type or beyond its limits.
    """

    model_config = ConfigDict(frozen=True)
