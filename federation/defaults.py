"""The values that are used where the user gave none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from dpeer.exceptions import ConfigurationError
from dpeer.federation.presets import find_preset
from dpeer.federation.settings import Settings
from dpeer.training import BUILTIN_TASKS, find_algorithm

_RATES = ("body_lr", "head_lr")
_OF_ADAMW = 0.001
"""PyTorch's own: AdamW's steps have about the length of the rate, whatever the gradient's."""
GRAD_CLIP = 1.0
"""The longest gradient where nobody says; the setting itself is none, as bare `Hyperparameters` have it."""
VALIDATION = 0.15
"""Share of the training samples that is held out where the best model is kept and nobody says how many."""
_AFTERWARDS = "head:10"
"""How a head is trained that was frozen while messages left."""


def with_defaults(settings: Settings) -> Settings:
    """The settings with the defaults of the algorithm, the preset, the task or the optimizer where none were given.

    Of several the first in this order counts.

    Raises:
        UnknownName: There is no such algorithm or preset.
        ConfigurationError: The preset's rates are those of another optimizer.
    """
    builtin, algorithm = BUILTIN_TASKS.get(settings.task), find_algorithm(settings.algorithm)
    preset = find_preset(settings.preset).values_for(settings.algorithm) if settings.preset else {}
    said = settings.model_fields_set
    rates = _rates(settings, preset, {*said, *algorithm.defaults}) if settings.optimizer == "adamw" else {}
    own = {"grad_clip": GRAD_CLIP, **rates, **preset, **algorithm.defaults}
    if settings.standardize is None:
        # Statistics of one's own data are computed under privacy only if somebody asks for them.
        own["standardize"] = builtin is not None and builtin.standardize and settings.privacy == "none"
        said = said - {"standardize"}
    if settings.privacy == "sample" and "finish" not in said:
        own["finish"] = _AFTERWARDS if settings.dp_head == "post" else "none"
    return settings.model_copy(update={name: value for name, value in own.items() if name not in said})


def with_choice(settings: Settings) -> Settings:
    """The settings with "auto" resolved: which model is kept, and what is held out to choose it by.

    Nothing is chosen by data without noise under privacy, nor in a run that is to be a paper's; and where figures are
    of validation data, these have not chosen the model.
    """
    fair = settings.privacy == "none" and not settings.preset and settings.evaluate_on == "test"
    keep = settings.keep or "last"
    if keep == "auto":
        keep = "best" if fair and settings.validation != 0 else "last"
    share = settings.validation
    if share is None:
        share = VALIDATION if fair and keep == "best" else 0.0
    return settings.model_copy(update={"keep": keep, "validation": share})


def kept(settings: Settings) -> Literal["last", "best"]:
    """Which model a learner keeps, by settings as `with_choice` gives them."""
    return "best" if settings.keep == "best" else "last"


def holds_out_if_enough(settings: Settings) -> bool:
    """Whether nobody has asked for validation data, so that a peer with too few samples trains on all of them."""
    return settings.keep == "auto" and settings.validation is None


def _rates(settings: Settings, preset: Mapping[str, Any], said: Collection[str]) -> dict[str, float]:
    """The rates of AdamW, where nobody gives others.

    Raises:
        ConfigurationError: The preset's would be used, which are those of another optimizer.
    """
    of_sgd = preset.get("optimizer") != "adamw"
    if of_sgd and (strange := [name for name in _RATES if name in preset and name not in said]):
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in strange)
        raise ConfigurationError(
            f"--optimizer adamw: preset {settings.preset!r} has learning rates for sgd, which are far too large for "
            f"adamw: give {flags} too, for example {_OF_ADAMW:g}"
        )
    return dict.fromkeys(_RATES, _OF_ADAMW)
