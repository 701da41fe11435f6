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
import functools
import math
from collections.abc import Mapping
from typing import Annotated, Any, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_json

from dpeer.exceptions import AlgorithmError, UnknownName, describe
from dpeer.sections import Mark, Mistake
from dpeer.training.algorithms.base import Algorithm
from dpeer.training.settings import Hyperparameters

_KEY = "dpeer"


@dataclasses.dataclass(frozen=True)
class About:
    """Facts of an option besides its type and default.

    Attributes:
        words: What it is, for listings.
        mark: `Mark.SHARED` where it is equal on all peers, `Mark.OWN` where it is each peer's own affair.
        limits: How its values are checked, besides by its type.
    """

    words: str = ""
    mark: Mark = Mark.SHARED
    limits: FieldInfo = dataclasses.field(default_factory=FieldInfo)


def option(default: Any, words: str = "", *, shared: bool = True, **limits: Any) -> Any:
    """A field of an algorithm's `Options`.

    Args:
        default: Its value by default; a callable makes one.
        words: What it is, for listings.
        shared: Whether it must be equal on all peers; if not, it is each peer's own affair.
        limits: What its values are limited to, as arguments of pydantic's `Field`: ``ge=0``, ``lt=1``, ``pattern=...``.
    """
    about = About(words, Mark.SHARED if shared else Mark.OWN, Field(**limits))
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
    given = {}
    for name, value in values.items():
        try:
            given[name] = _kinds(algorithm)[name].validate_json(to_json(value))  # of a list it makes a tuple
        except ValidationError as error:
            raise AlgorithmError(f"{where} {name}={value}: {Mistake(error).wrong} ({algorithm.name})") from error
    try:
        made = algorithm.Options(**given)
    except (ValueError, TypeError) as error:  # of a __post_init__, or one without a default is missing
        raise AlgorithmError(f"{where}: {algorithm.name} refuses its options: {describe(error)}") from error
    for name, value in shared_options(made).items():
        if not all(map(_comparable, value if isinstance(value, list) else [value])):
            raise AlgorithmError(
                f"algorithm {algorithm.name}: its option {name} is {value!r}; what all peers share must be a number of "
                "at most 64 bits, a text or a list of such, which can be compared; or say option(..., shared=False)"
            )
    return made


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
        _kinds(algorithm)
    except Exception as error:
        raise AlgorithmError(f"algorithm {algorithm.name}: its Options cannot be checked: {describe(error)}") from error


def shared_options(options: Any) -> dict[str, Any]:
    """The values of the options that must be equal on all peers, by name, as plain JSON values.

    Args:
        options: An instance of `Options`, such as ``algorithm.options``.
    """
    about = {field.name: field.metadata.get(_KEY, About()) for field in dataclasses.fields(options)}
    values = {name: getattr(options, name) for name, one in about.items() if one.mark is Mark.SHARED}
    return {name: [*value] if isinstance(value, tuple) else value for name, value in values.items()}


def _comparable(value: Any) -> bool:
    if isinstance(value, int):
        return -(2**63) <= value < 2**64  # what a message carries
    return value is None or isinstance(value, str) or (isinstance(value, float) and not math.isnan(value))


@functools.cache
def _kinds(algorithm: type[Algorithm]) -> dict[str, TypeAdapter[Any]]:
    """By name, what checks an option's values."""
    hints = get_type_hints(algorithm.Options, include_extras=True)
    config = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    kinds: dict[str, Any] = {name: Annotated[hints[name], one.limits] for name, one in about_options(algorithm).items()}
    return {name: TypeAdapter(kind, config=config) for name, kind in kinds.items()}
