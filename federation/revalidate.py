"""Settings as a script hands them over: what was assigned to them or changed in them since they were made counts."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from dpeer.exceptions import ConfigurationError
from dpeer.federation.settings import TABLES, RankSettings, Settings, check_ranks, default_of

_IN_PLACE = (*TABLES, "rank")
"""Settings that a script may change without assigning them, so that they do not count as said."""

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


def checked(settings: Settings) -> Settings:
    """The same settings, made once more of all that was said, so that every way to run them sees the same values.

    Args:
        settings: Assigning to a field checks nothing, and changing a dict in place leaves no trace in
            ``model_fields_set``, which tells what a process of its own is sent.

    Raises:
        ConfigurationError: Names the key, the value and what would be right.
    """
    values = dict(settings)
    names = {*settings.model_fields_set, *(name for name in _IN_PLACE if values[name] != default_of(name))}
    said = {name: value for name, value in values.items() if name in names}
    if isinstance(said.get("rank"), dict):
        said["rank"] = {rank: _own(own) for rank, own in said["rank"].items()}
    made = Settings.model_validate(said)
    check_ranks(made)
    for name, options in _options(made):
        for key, value in options.items():
            _check_plain(f"{name}.{key}", value)
    return made


def check_flags(**flags: Any) -> None:
    """Refuse what is neither True nor False, which Python would take for one of them.

    Raises:
        ConfigurationError: Names the key, the value and what would be right.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name} = {value!r}: expected True or False")


def _own(own: Any) -> Any:
    """What a rank's own settings say, to be checked once more."""
    if not isinstance(own, RankSettings):
        return own
    return {name: value for name, value in own if value is not None and value != {}}


def _options(settings: Settings) -> list[tuple[str, dict[str, Any]]]:
    ranks = [(f"rank.{rank}.task_options", own.task_options) for rank, own in settings.rank.items()]
    return [(name, getattr(settings, name)) for name in TABLES] + ranks


def _check_plain(name: str, value: Any) -> None:
    """Refuse an option that summary.json could not say."""
    try:
        _ANYTHING.dump_python(value, mode="json")
    except ValueError as error:  # pydantic's PydanticSerializationError is one
        raise ConfigurationError(
            f"{name} = {value!r}: expected a number, a text, True, False, None, or a list or dict of these"
        ) from error
