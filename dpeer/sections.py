"""Sections of settings: how a package declares a setting with type, help, group and its fingerprint and resume mark.

A section is a pydantic model whose fields are made by `setting`. The federation's settings are all sections together;
command-line options and their help, the keys of a federation file and of its tables ``[rank.N]``, the fingerprint that
peers compare, what a run must not change when it is resumed, and what `dpeer compare` and `dpeer report` group runs by
are derived from the fields' marks. What pydantic refuses, of these models and of others, `Mistake` states.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

from dpeer.exceptions import ConfigurationError, UnknownName


class Mark(StrEnum):
    """Whether the peers of a federation must agree on a setting, and whether it has an effect on results."""

    SHARED = "shared"
    """Equal on all peers: they compare it when they shake hands."""

    FOLLOWS = "follows"
    """Equal on all peers as far as it matters: they compare what follows from it, such as edges or first weights."""

    OWN = "own"
    """A peer's own choice, which has an effect on its results."""

    ASIDE = "aside"
    """A peer's own choice, without an effect on its results."""


EXCHANGE = "Graph and messages"
"""The heading of settings of who exchanges bodies with whom, and how; several packages have some."""


@dataclass(frozen=True)
class Meaning:
    """What is stated of a setting besides its type, default and description.

    Attributes:
        mark: Whether peers must agree on it, and whether it has an effect on results.
        group: The heading under which a command's help lists it.
        first: Whether it is one of those that most people need, which a command's help lists.
        of_rank: Whether a federation file may set it for one rank alone.
    """

    mark: Mark
    group: str
    first: bool
    of_rank: bool


class Section(BaseModel):
    """Settings that belong together; frozen."""

    # Schemas are built at first use: the options of a command need the fields alone.
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True, frozen=True, defer_build=True)

    @field_validator("*")
    @classmethod
    def _fits_into_memory(cls, value: Any) -> Any:
        if isinstance(value, int) and value >= 2**63:
            raise ValueError("input should be less than 9223372036854775808")
        return value


_KEY = "dpeer"


def setting(
    default: Any, words: str, *, mark: Mark, group: str, first: bool = False, of_rank: bool | None = None, **limits: Any
) -> Any:
    """A field of a section.

    Args:
        default: Its value where none is given; a callable makes one.
        words: Its description. The first clause, up to a colon, a semicolon or its default, is all that a help has.
        mark: Whether peers must agree on it, and whether it has an effect on results.
        group: The heading under which a command's help lists it.
        first: Whether it is one of those that most people need, which a command's help lists.
        of_rank: Whether a federation file may set it for one rank alone; by default it may where it is a peer's own.
        limits: Further arguments of pydantic's `Field`, such as ``ge=1``.
    """
    ranked = mark in (Mark.OWN, Mark.ASIDE) if of_rank is None else of_rank
    filled = {"default_factory": default} if callable(default) else {"default": default}
    meaning = Meaning(mark, group, first, ranked)
    return Field(**filled, description=words, json_schema_extra={_KEY: meaning}, **limits)  # type: ignore[dict-item]


def meaning_of(field: FieldInfo) -> Meaning:
    """The meaning that `setting` was given for a field.

    Raises:
        TypeError: The field was not made by `setting`.
    """
    extra: Any = field.json_schema_extra
    meaning = extra.get(_KEY) if isinstance(extra, dict) else None
    if not isinstance(meaning, Meaning):
        raise TypeError("a setting must be made by dpeer.sections.setting, which gives it a mark and a group")
    return meaning


def in_words(field: FieldInfo) -> str:
    """The words of a setting as a sentence."""
    return f"{field.description[:1].upper()}{field.description[1:]}." if field.description else ""


_DETAIL = re.compile(r"[:;]\s(?![^(]*\))| \(default")
"""Where the details of a setting's words begin."""


def in_short(field: FieldInfo) -> str:
    """The first clause of a setting's words as a sentence."""
    return f"{_DETAIL.split(in_words(field), maxsplit=1)[0].removesuffix('.')}."


def marked(section: type[BaseModel], *marks: Mark) -> tuple[str, ...]:
    """The names of a section's settings with one of these marks, in their order."""
    return tuple(name for name, field in section.model_fields.items() if meaning_of(field).mark in marks)


def names(*sections: type[BaseModel]) -> tuple[str, ...]:
    """The names of all settings of some sections, in their order."""
    return tuple(name for section in sections for name in section.model_fields)


class Mistake:
    """What pydantic has found first, or a key that does not exist: one that is misspelled is missing, too.

    `keys` are its place, with what pydantic has beside keys; `kind` is pydantic's name of it.
    """

    def __init__(self, error: ValidationError) -> None:
        first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
        self.keys = [str(part) for part in first["loc"]]
        self.kind, self.value, self.context = first["type"], first["input"], first.get("ctx", {})
        self.own = self.kind == "value_error"  # of a check of dpeer's own
        self.wrong = str(self.context["error"]) if self.own else first["msg"][:1].lower() + first["msg"][1:]

    def error(
        self, source: str, known: Iterable[str] = (), where: str = "", *, noun: str = "key", expected: str | None = None
    ) -> ConfigurationError:
        """One line: the key as `source` names it, its value, and what is wrong; or the nearest `known` key."""
        if self.kind == "extra_forbidden":
            return UnknownName(noun, self.keys[-1], known, where)
        right = None if expected is None else f"expected {expected}"
        if self.kind == "missing":
            return ConfigurationError(f"{source} is missing" if right is None else f"{source} is missing: {right}")
        value = "" if self.own and isinstance(self.value, Mapping) else f" = {self.value!r}"
        return ConfigurationError(f"{source}{value}: {self.wrong if self.own or right is None else right}")
