"""Options of launchers: `--launcher-option KEY=VALUE`, read by the kind that each key expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpeer.exceptions import ConfigurationError, UnknownName
from dpeer.results.units import read_size

_OPTION = "--launcher-option"


@dataclass(frozen=True)
class Kind:
    """The values that an option takes.

    Attributes:
        read: Reads a value; raises ValueError or TypeError for any other.
        words: The values in words, for the error.
        default: The value of an option that is not given.
    """

    read: Callable[[Any], Any]
    words: str
    default: Any = None


def read_options(
    launcher: str, given: Mapping[str, Any], kinds: Mapping[str, Kind], *, others: bool = False
) -> dict[str, Any]:
    """Read a launcher's options; those that are not given have their defaults.

    Args:
        launcher: Its name.
        given: The options as they were typed, by name.
        kinds: The options that it knows, by name.
        others: Whether it takes further ones, which stay as they are.

    Raises:
        UnknownName: It knows no such option.
        ConfigurationError: A value is of another kind.
    """
    found = {name: kind.default for name, kind in kinds.items()}
    for name, value in given.items():
        kind = kinds.get(name)
        if kind is None and not others:
            raise UnknownName("option", name, sorted(kinds) or ["(none)"], f"{_OPTION} of --launcher {launcher}")
        try:
            found[name] = value if kind is None else kind.read(value)
        except (ValueError, TypeError):
            raise ConfigurationError(f"{_OPTION} {name}={value}: expected {kind and kind.words}") from None
    return found


def _whole(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError
        return value

    return read


def whole_number(least: int, default: int | None) -> Kind:
    """A whole number, from `least` on."""
    return Kind(_whole(least), f"a whole number from {least} on", default)


def _share(value: Any) -> float:
    # Schedulers divide one device, and give more of them whole.
    if isinstance(value, bool) or not (0 <= value <= 1 or value == int(value)):
        raise ValueError
    return float(value)


SHARE = Kind(_share, "a whole number, or a part of one such as 0.5")
"""A number of devices, or a part of one."""

SIZE = Kind(lambda value: read_size(f"{_OPTION} memory", str(value)), "bytes, such as 4GB")
"""Bytes, with a unit."""

TEXT = Kind(str, "a text")
