"""The values that are used where the user gave none."""

from __future__ import annotations

from dpeer.federation.presets import find_preset
from dpeer.federation.settings import Settings
from dpeer.training import BUILTIN_TASKS, find_algorithm


def with_defaults(settings: Settings) -> Settings:
    """The settings with the algorithm's own defaults, else the preset's, else the task's, where nobody said otherwise.

    Raises:
        UnknownName: There is no such algorithm or preset.
    """
    builtin, algorithm = BUILTIN_TASKS.get(settings.task), find_algorithm(settings.algorithm)
    preset = find_preset(settings.preset).values if settings.preset else {}
    own = {**(builtin.hyperparameters if builtin else {}), **preset, **algorithm.defaults}
    said = settings.model_fields_set
    if settings.standardize is None:
        # Statistics of one's own data are computed under privacy only if somebody asks for them.
        own["standardize"] = builtin is not None and builtin.standardize and settings.privacy == "none"
        said = said - {"standardize"}
    return settings.model_copy(update={name: value for name, value in own.items() if name not in said})
