"""The setting `--compress`, and the three older settings that it replaces; imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpeer.exceptions import ConfigurationError

BUILT_IN = ("float32", "bfloat16", "float16", "int16", "int8", "int4")
"""The codecs by name."""

EXPECTED = f"{', '.join(BUILT_IN)}, or a class: FILE.py:CLASS or MODULE:CLASS"

OLDER = ("quantize", "wire_dtype", "codec")
"""Settings of earlier versions that `compress` replaces."""

_OLDER_VALUES = {"quantize": ("4", "8", "16"), "wire_dtype": ("float32", "bfloat16", "float16")}


def is_class(text: str) -> bool:
    """Whether a codec's name is that of a class of the user's own; a class's name begins with no digit."""
    _, colon, name = text.rpartition(":")
    return (bool(colon) and not name[:1].isdigit()) or text.endswith(".py")


def check_compress(text: str) -> str:
    """The name of a codec.

    Raises:
        ValueError: It is neither a built-in codec nor a class.
    """
    if text not in BUILT_IN and not is_class(text):
        raise ValueError(f"expected {EXPECTED}")
    return text


def with_compress(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, or flags, by name, with `compress` in place of the settings of earlier versions.

    Raises:
        ConfigurationError: Two of them ask for different codecs.
    """
    found = {name: value for name, value in values.items() if name not in OLDER}
    asked = {name: _today(name, values[name]) for name in OLDER if values.get(name) is not None}
    if asked.get("wire_dtype") == "float32" and len(asked) > 1:
        del asked["wire_dtype"]  # it was the default, beside which the two others were given
    if values.get("compress") is not None:
        asked["compress"] = values["compress"]
    given = {name: values[name] for name in asked}
    if len({repr(value) for value in asked.values()}) > 1:
        first, second, *_ = (f"--{name.replace('_', '-')} {value}" for name, value in reversed(given.items()))
        raise ConfigurationError(
            f"{first} cannot be used with {second}: --compress alone says how bodies travel, in place of --quantize, "
            "--wire-dtype and --codec"
        )
    return found | ({"compress": next(iter(asked.values()))} if asked else {})


def renamed(key: str, value: Any) -> tuple[str, Any]:
    """A setting as it is called today, with its value; all but the older ones are returned as they are."""
    name = key.replace("-", "_")
    return ("compress", _today(name, value)) if name in OLDER else (key, value)


def _today(name: str, value: Any) -> Any:
    """The value of `compress` for one of the older settings; a codec's name is left to be refused later.

    Raises:
        ConfigurationError: The setting never had this value.
    """
    if str(value) not in (valid := _OLDER_VALUES.get(name, (str(value),))):
        raise ConfigurationError(
            f"--{name.replace('_', '-')} {value}: expected {', '.join(valid)}, or --compress in its place"
        )
    return f"int{value}" if name == "quantize" else value
