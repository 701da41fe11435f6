"""JSON objects as dataclasses: each field reads its key, and a value that is missing or damaged becomes None."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

COUNTED = 10**9
"""More rounds, ranks or samples than that are damage in a file."""

_HUGE = 1e100

T = TypeVar("T")


def json_field(read: Callable[[Any], T]) -> T:
    """A field of a class of `JsonFields`: the key of its name, read by `read`; a missing key is read as null is."""
    return field(default_factory=lambda: read(None), metadata={"read": read})


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class JsonFields:
    """Values of a JSON object. Derive a dataclass with fields made by `json_field`; other keys are left out."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Read an object; a key that is missing or damaged is read as null is."""
        return cls(**{name: read(content.get(name)) for name, read in _readers(cast(Any, cls))})


@cache
def _readers(kind: type[_Dataclass]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((one.name, one.metadata["read"]) for one in fields(kind))


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


def text(value: Any) -> str | None:
    """The value if it is a text."""
    return value if isinstance(value, str) else None


def texts(value: Any) -> tuple[str, ...]:
    """The texts in a list; none if the value is no list."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def flag(value: Any) -> bool | None:
    """The value if it is true or false."""
    return value if isinstance(value, bool) else None


def table(value: Any) -> Mapping[str, Any] | None:
    """The value if it is a JSON object."""
    return value if isinstance(value, Mapping) else None


def table_or_empty(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object; else an empty one."""
    return table(value) or {}


def figures(value: Any) -> Mapping[str, float | None] | None:
    """Numbers by name if the value is a JSON object; None for each value that is no number."""
    return {name: number(one) for name, one in value.items()} if isinstance(value, Mapping) else None


def wholes(value: Any) -> tuple[int, ...] | None:
    """Whole numbers from 0 on, of samples or steps, if the value is a list of nothing else."""
    if isinstance(value, list) and all(whole(one) is not None for one in value):
        return tuple(value)
    return None


def numbers_by_rank(value: Any) -> tuple[float | None, ...]:
    """A number or None for each peer; empty if the value is no list."""
    return tuple(map(number, value)) if isinstance(value, list) else ()


def wholes_by_rank(value: Any) -> tuple[int | None, ...]:
    """A whole number or None for each peer; empty if the value is no list."""
    return tuple(map(whole, value)) if isinstance(value, list) else ()
