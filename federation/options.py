"""An algorithm's options, from flags of their own and from `--algorithm-option`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.federation.settings import Settings
from dpeer.training import find_algorithm, make_options, options_among


def with_options(settings: Settings, said: Collection[str]) -> Settings:
    """The settings, where `--algorithm-option` also sets options that have a flag of their own.

    Args:
        settings: All values as they are used.
        said: The settings that do not come from a default.

    Raises:
        ConfigurationError: An option is given in both ways, with different values.
    """
    flagged = options_among(find_algorithm(settings.algorithm), settings.model_dump())
    update: dict[str, Any] = {}
    for name in flagged.keys() & settings.algorithm_options.keys():
        value = settings.algorithm_options[name]
        if name in said and flagged[name] != value:
            raise ConfigurationError(
                f"--algorithm-option {name}={value} and --{name.replace('_', '-')} {flagged[name]} are the same "
                "option: give one of them"
            )
        update[name] = value
    return settings.model_copy(update=update) if update else settings


def options_of(settings: Settings) -> Any:
    """The `Options` that the settings give their algorithm.

    Raises:
        UnknownName: It has no option of a name that was given.
        AlgorithmError: A value is of another type, or beyond the option's limits.
    """
    algorithm = find_algorithm(settings.algorithm)
    return make_options(algorithm, {**options_among(algorithm, settings.model_dump()), **settings.algorithm_options})
