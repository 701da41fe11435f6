"""Settings from files and flags; an error is one line that names the key, the value and what would be right."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeer.encoding import read_text
from dpeer.exceptions import ConfigurationError
from dpeer.federation.config_errors import InvalidSettings
from dpeer.federation.settings import TABLES, Settings, check_ranks

DEFAULT_FILE = Path("dpeer.toml")


def load(file: Path | None, flags: Mapping[str, Any]) -> Settings:
    """Settings from a federation file and the flags that were given; flags win, also over `[rank.N]`.

    Args:
        file: The file, or None for ./dpeer.toml if it exists.
        flags: By field name; None means not given.

    Raises:
        ConfigurationError: names the key, the value and what would be right.
    """
    path = source(file)
    return _settled(read_toml(path, "--federation") if path else {}, flags, path)


def from_flags(flags: Mapping[str, Any]) -> Settings:
    """Settings from flags alone, wherever the command is called.

    Raises:
        ConfigurationError: names the key, the value and what would be right.
    """
    return _settled({}, flags, None)


def _settled(values: dict[str, Any], flags: Mapping[str, Any], path: Path | None) -> Settings:
    addressed = any("address" in own for own in _tables(values.get("rank")))
    if addressed and "size" not in values and flags.get("size") is None:
        ranks = ", ".join(str(rank) for rank in values["rank"]) if isinstance(values["rank"], dict) else "some"
        raise ConfigurationError(f"size is missing in {path}, which has entries for ranks {ranks}: add size = N")
    given = {key: value for key, value in flags.items() if value is not None and value != {}}
    for key in TABLES:
        if key in given:
            common = values.get(key, {})
            given[key] = {**(common if isinstance(common, dict) else {}), **given[key]}
    for table in (values, *_tables(values.get("rank"))):
        for name in ("schema", "faults", "secret", "init_from"):  # beside the file that names them
            if path is not None and isinstance(table.get(name), str):
                table[name] = str(path.parent / Path(table[name]).expanduser())
    for own in _tables(values.get("rank")):
        for key in given.keys() & own.keys():
            own[key] = {**own[key], **flags[key]} if key == "task_options" else given[key]
    try:
        settings = Settings.model_validate({**values, **given})
    except InvalidSettings as error:
        raise error.told_of(given, path) from error
    check_ranks(settings, f" in {path}")
    return settings


def source(file: Path | None) -> Path | None:
    """The federation file that is used: the one that was named, or ./dpeer.toml if it exists."""
    return file or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)


def parse_option(text: str, where: str = "--task-option", example: str = "data=/path/to/data") -> tuple[str, Any]:
    """A KEY=VALUE, such as of --task-option; the value is TOML where it can be, else the text itself.

    Raises:
        ConfigurationError: there is no `=`.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigurationError(f"{where} {text!r}: expected KEY=VALUE, for example {example}")
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return key, value
    return key, parsed["value"] if len(parsed) == 1 else value


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The content of a TOML file; `what` names the file's purpose in error messages.

    Raises:
        ConfigurationError: There is no such file, or it is not TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except OSError as error:
        raise ConfigurationError(f"{what} {str(path)!r}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error


def _tables(ranks: object) -> list[dict[str, Any]]:
    return [own for own in ranks.values() if isinstance(own, dict)] if isinstance(ranks, dict) else []
