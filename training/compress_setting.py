"""The setting `--compress`, parsed, and the three older settings that it replaces; imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dpeer.exceptions import ConfigurationError
from dpeer.training.setting_text import shortest

Kind = Literal["float32", "bfloat16", "float16", "int16", "int8", "int4", "topk", "powersgd", "class"]
"""A built-in codec, or a class of the user's own."""

PLAIN: tuple[Kind, ...] = ("float32", "bfloat16", "float16", "int16", "int8", "int4")
"""Codecs without numbers."""

FORMS = (*PLAIN, "topk:P", "powersgd:R")
"""Every built-in codec as it is written: P is a share of the values, R a rank."""

EXPECTED = f"{', '.join(FORMS)} (such as topk:0.05 or powersgd:4), or a class: FILE.py:CLASS or MODULE:CLASS"

OLDER = ("quantize", "wire_dtype", "codec")
"""Settings of earlier versions that `compress` replaces."""

_OLDER_VALUES = {"quantize": ("4", "8", "16"), "wire_dtype": ("float32", "bfloat16", "float16")}

_MOST_RANKS = 256


@dataclass(frozen=True)
class Compression:
    """A codec and its numbers.

    Attributes:
        kind: The codec.
        text: Its canonical text.
        share: Of `topk`: the share of the values that travel.
        rank: Of `powersgd`: the rank of the matrices that travel.
        step: The consensus step size that was asked for; None for the codec's own.
    """

    kind: Kind
    text: str
    share: float = 1.0
    rank: int = 0
    step: float | None = None

    @classmethod
    def parse(cls, text: str) -> Compression:
        """Read one of `FORMS`, `topk` and `powersgd` perhaps with a step size as third part, or the name of a class.

        Raises:
            ValueError: The text is none of these.
        """
        for kind in PLAIN:
            if text == kind:
                return cls(kind, text)
        name, *numbers = text.split(":")
        if name not in ("topk", "powersgd"):
            if ":" in text or text.endswith(".py"):
                return cls("class", text)
            raise ValueError(f"expected {EXPECTED}")
        if len(numbers) not in (1, 2):
            raise ValueError(f"expected {EXPECTED}")
        step = None if len(numbers) == 1 else _number(numbers[1])
        if step is not None and not 0 < step <= 1:
            raise ValueError("expected a step size above 0 and at most 1 as the third part, such as topk:0.05:0.4")
        end = "" if step is None else f":{shortest(step)}"
        if name == "topk":
            share = _number(numbers[0])
            if not 0 < share < 1:
                raise ValueError("expected a share between 0 and 1, such as topk:0.05")
            return cls("topk", f"topk:{shortest(share)}{end}", share=share, step=step)
        if not (numbers[0].isdecimal() and numbers[0].isascii() and 1 <= int(numbers[0]) <= _MOST_RANKS):
            raise ValueError(f"expected a rank from 1 to {_MOST_RANKS}, such as powersgd:4")
        rank = int(numbers[0])
        return cls("powersgd", f"powersgd:{rank}{end}", rank=rank, step=step)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def check_compress(text: str) -> str:
    """The one text that means what this one means, so that peers can compare texts.

    Raises:
        ValueError: It cannot be read.
    """
    return Compression.parse(text).text


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
