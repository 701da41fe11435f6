"""TOML: the content of a file, and values and comments as the text of one."""

from __future__ import annotations

import datetime
import json
import re
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeer.encoding import read_text
from dpeer.exceptions import ConfigurationError

_WIDTH = 116


def read_toml(path: Path, what: str, advice: str = "") -> dict[str, Any]:
    """The content of a TOML file; `what` names the file's purpose in error messages, `advice` where it cannot be read.

    Raises:
        ConfigurationError: The file is missing, or is not TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except OSError as error:
        raise ConfigurationError(f"{what} {str(path)!r}: {error.strerror}{advice}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error


def value_text(value: Any) -> str:
    """A text, number, truth value, date, path, list or table of these, as TOML has it on one line."""
    if isinstance(value, str | Path):
        # JSON's strings are TOML's, but for one sign that JSON leaves as it is.
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key_text(key)} = {value_text(one)}" for key, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return f"[{', '.join(map(value_text, value))}]"


def key_text(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else value_text(name)


def comment(text: str) -> list[str]:
    """The lines of a comment; TOML allows no control characters in one."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return textwrap.wrap(plain, _WIDTH, initial_indent="# ", subsequent_indent="# ")
