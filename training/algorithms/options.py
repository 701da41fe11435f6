"""Options of an algorithm: the settings that only it has, a frozen dataclass in its class.

    class Mine(Algorithm):
        @dataclass(frozen=True)
        class Options:
            mu: float = option(0.1, "how strongly the body is pulled back", ge=0)
            k: int = 3

A field that is not made by `option` is an option all the same. Unless it says ``shared=False``, an option is equal on
all peers.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import math
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, get_origin, get_type_hints
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from dpeer.exceptions import AlgorithmError, UnknownName, describe
from dpeer.sections import Mark
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.settings import Hyperparameters

_KEY = "dpeer"
_PLAIN = (bool, int, float, str, bytes, PurePath, Decimal, datetime.date, datetime.time, datetime.timedelta, UUID)
"""Types of single values that JSON can tell apart, each from others of its own type."""


@dataclasses.dataclass(frozen=True)
class About:
    """Facts of an option besides its type and default.

    Attributes:
        words: What it is, for listings.
        mark: `Mark.SHARED` where it is equal on all peers, `Mark.OWN` where it is each peer's own affair.
        field: How its values are checked, besides by its type; None where any of the type will do.
    """

    words: str = ""
    mark: Mark = Mark.SHARED
    field: FieldInfo | None = None


def option(default: Any, words: str = "", *, shared: bool = True, **limits: Any) -> Any:
    """A field of an algorithm's `Options`.

    Args:
        default: Its value by default; a callable makes one.
        words: What it is, for listings.
        shared: Whether it must be equal on all peers; if not, it is each peer's own affair.
        limits: What its values are limited to, as arguments of pydantic's `Field`: ``ge=0``, ``lt=1``, ``pattern=...``.
    """
    about = About(words, Mark.SHARED if shared else Mark.OWN, Field(None, **limits))
    if callable(default):
        return dataclasses.field(default_factory=default, metadata={_KEY: about})
    return dataclasses.field(default=default, metadata={_KEY: about})


def about_options(algorithm: type[Algorithm]) -> dict[str, About]:
    """The facts of each option of an algorithm, by name, in the order in which they are stated."""
    fields = (field for field in dataclasses.fields(algorithm.Options) if field.init)
    return {field.name: field.metadata.get(_KEY, About()) for field in fields}


def make_options(algorithm: type[Algorithm], values: Mapping[str, Any], where: str = "--algorithm-option") -> Any:
    """An algorithm's `Options` with these values, and with its defaults for the others.

    Args:
        algorithm: The algorithm.
        values: Values by name. A whole number will do where the option is a float; nothing else is converted.
        where: Where they were given, for messages.

    Raises:
        UnknownName: The algorithm has no option of that name; the error names the nearest.
        AlgorithmError: A value is of another type or beyond the option's limits, or one without a default is missing.
    """
    known = about_options(algorithm)
    for name in values:
        if name not in known and name in Hyperparameters.model_fields:
            raise AlgorithmError(f"{where} {name}: it is a setting of its own: --{name.replace('_', '-')}")
        if name not in known:
            raise UnknownName(f"option of {algorithm.name}", name, known or ["(none)"], where)
    try:
        checked = _model(algorithm).model_validate(_as_typed(algorithm, values))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        if first["type"] == "missing":
            raise AlgorithmError(f"{algorithm.name} needs {where} {name}=VALUE: it has no default") from error
        message = first["msg"].removeprefix("Value error, ").lower()
        raise AlgorithmError(f"{where} {name}={values[name]}: {message} ({algorithm.name})") from error
    given = {name: getattr(checked, name) for name in values}
    try:
        made = algorithm.Options(**given)
    except (ValueError, TypeError) as error:  # of a __post_init__
        raise AlgorithmError(f"{where}: {algorithm.name} refuses its options: {describe(error)}") from error
    try:
        shared_options(made)
    except (ValueError, TypeError) as error:
        raise AlgorithmError(
            f"algorithm {algorithm.name}: an option that all peers share must be numbers, texts, lists or tables of "
            f"such, which can be compared ({describe(error)}); or say option(..., shared=False)"
        ) from error
    return made


def _as_typed(algorithm: type[Algorithm], values: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as what the options are: tables of options know no tuples and sets."""
    hints = get_type_hints(algorithm.Options, include_extras=True)
    kinds = {name: get_origin(hints[name]) or hints[name] for name in values}
    return {
        name: kinds[name](value) if isinstance(value, list) and kinds[name] in (tuple, set, frozenset) else value
        for name, value in values.items()
    }


def check_options(algorithm: type[Algorithm]) -> None:
    """Refuse `Options` that options cannot be made from.

    Raises:
        AlgorithmError: It is no frozen dataclass, or the type of an option cannot be checked.
    """
    # A class that merely inherits from a dataclass has no such parameters of its own.
    parameters = vars(algorithm.Options).get("__dataclass_params__") if isinstance(algorithm.Options, type) else None
    if parameters is None or not parameters.frozen:
        raise AlgorithmError(
            f"algorithm {algorithm.name}: its Options must be a frozen dataclass: put @dataclass(frozen=True) above it"
        )
    try:
        _model(algorithm)
    except Exception as error:
        raise AlgorithmError(f"algorithm {algorithm.name}: its Options cannot be checked: {describe(error)}") from error


def shared_options(options: Any) -> dict[str, Any]:
    """The values of the options that must be equal on all peers, by name, as plain JSON values.

    Args:
        options: An instance of `Options`, such as ``algorithm.options``.
    """
    shared = {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if field.metadata.get(_KEY, About()).mark is Mark.SHARED
    }
    return {name: _plain(value) for name, value in shared.items()}


def _plain(value: Any) -> Any:
    """A value as plain JSON, so that two different ones of one type never look alike.

    Raises:
        TypeError, ValueError: It is of a type of which that is not known.
    """
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, set | frozenset):  # their order differs from process to process
        return sorted((_plain(one) for one in value), key=repr)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        if len({type(key) for key in value}) > 1:
            raise TypeError(f"a table with keys of several types: {[*value]!r}")
        return {_key(key): _plain(one) for key, one in value.items()}
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("nan, which equals nothing")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError("a whole number of more than 64 bits, which no message carries: give it as text")
    if value is None or isinstance(value, _PLAIN):
        return to_jsonable_python(value)
    raise TypeError(f"a {type(value).__name__}")


def _key(key: Any) -> str:
    ((name, _),) = to_jsonable_python({_plain(key): None}).items() if isinstance(key, _PLAIN) else ((key, None),)
    if not isinstance(name, str):
        raise TypeError(f"a table with the key {key!r}")
    return name


@functools.cache
def _model(algorithm: type[Algorithm]) -> type[BaseModel]:
    """A pydantic model that checks values for the options."""
    hints = get_type_hints(algorithm.Options, include_extras=True)
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(algorithm.Options):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        # What is not given keeps the dataclass's own default, so any will do here.
        plain = Field() if required else Field(None)
        fields[field.name] = hints[field.name], field.metadata.get(_KEY, About()).field or plain
    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    return create_model(f"{algorithm.__name__}Options", __config__=config, **fields)
