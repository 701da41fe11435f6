"""JSON objects as dataclasses: pydantic reads each key by its field's type; a damaged one has the field's default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Self, cast

from pydantic import Field, TypeAdapter, ValidationError

COUNTED = 10**9
"""More rounds, ranks or samples than that are damage in a file."""

_HUGE = 1e100

Number = Annotated[float, Field(strict=True, gt=-_HUGE, lt=_HUGE, allow_inf_nan=False)]
"""What something can have been measured as."""

Count = Annotated[int, Field(strict=True, ge=0, lt=COUNTED)]
"""Rounds, ranks or samples."""

Total = Annotated[int, Field(strict=True, ge=0)]
"""Bytes, gradients or a seed, which may be more than `COUNTED`."""

Figures = Mapping[str, Number | None]


class JsonFields:
    """Values of a JSON object. Derive a dataclass whose fields have defaults; other keys are left out."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Read an object; a key that is missing or damaged has its field's default."""
        read: Callable[[Any], Self] = _adapter(cast(Any, cls)).validate_python
        try:
            return read(content)
        except ValidationError as error:
            damaged = {one["loc"][0] for one in error.errors()}
            return read({name: value for name, value in content.items() if name not in damaged})


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def number(value: Any) -> float | None:
    """The value if it is a number that something can have been measured as; 0 if it is too small for an axis."""
    if isinstance(value, int | float) and not isinstance(value, bool) and -_HUGE < value < _HUGE:
        return float(value) if abs(value) * _HUGE >= 1 else 0.0
    return None


def whole(value: Any) -> int | None:
    """The value if it is a whole number from 0 on that rounds, ranks or samples can be counted up to."""
    return value if type(value) is int and 0 <= value < COUNTED else None


def total(value: Any) -> int | None:
    """The value if it is a whole number from 0 on: bytes, gradients or a seed, which may be more than `COUNTED`."""
    found = number(value)
    return int(value) if found is not None and found >= 0 and found.is_integer() else None


def table(value: Any) -> Mapping[str, Any] | None:
    """The value if it is a JSON object."""
    return value if isinstance(value, Mapping) else None


def table_or_empty(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object; else an empty one."""
    return table(value) or {}
