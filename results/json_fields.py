"""Classes whose fields are the keys of a JSON object, each with the function that reads its value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

T = TypeVar("T")


def said(read: Callable[[Any], T]) -> T:
    """A field of a class of `Keys`: the key of its name, as `read` finds it; a missing key is read as null is."""
    return field(default_factory=lambda: read(None), metadata={"read": read})


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


class Keys:
    """Values of a JSON object. Derive a dataclass with fields made by `said`; other keys are left out."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """Read an object; a key that is missing or damaged is read as null is."""
        return cls(**{name: read(content.get(name)) for name, read in _readers(cast(Any, cls))})


@cache
def _readers(kind: type[_Dataclass]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((one.name, one.metadata["read"]) for one in fields(kind))
