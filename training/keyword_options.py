"""Options that are the keyword arguments of a function: types, limits and defaults from its signature; no torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from dpeer.sections import Mistake


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """The default value of each option, by name; `inspect.Parameter.empty` for one that must be given."""
    return {name: one.default for name, one in _stated(function).items()}


def validated(
    function: Callable[..., Any], given: Mapping[str, Any], error: Callable[[str, str], Exception]
) -> dict[str, Any]:
    """The given options, each of its type and within its limits.

    Args:
        function: States types, and limits as pydantic's `Field` in `Annotated`.
        given: Values by name; all names are known.
        error: Makes an error of an option's name and of what is wrong; of one that is missing, too.
    """
    stated, found = _stated(function), {}
    if missing := next((name for name, one in stated.items() if one.default is one.empty and name not in given), None):
        raise error(missing, "is missing")
    for name, value in given.items():
        try:
            found[name] = TypeAdapter[Any](stated[name].annotation, config=_STRICT).validate_python(value)
        except ValidationError as invalid:
            raise error(name, Mistake(invalid).wrong) from invalid
    return found


_STRICT = ConfigDict(strict=True, allow_inf_nan=False)


def _stated(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    every = inspect.signature(function, eval_str=True).parameters.values()
    return {
        one.name: one.replace(annotation=Any) if one.annotation is one.empty else one
        for one in every
        if one.kind is one.KEYWORD_ONLY
    }


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _as_names(value: Any) -> Any:
    given = value.split(",") if isinstance(value, str) else value
    return tuple(str(_as_text(name)).strip() for name in given) if isinstance(given, list | tuple) else value


def _different(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError("expected different names, such as A,B")
    return names


Text = Annotated[str, BeforeValidator(_as_text), Field(min_length=1)]
"""A text; a whole number may be the name of a column."""

Names = Annotated[tuple[str, ...], BeforeValidator(_as_names), AfterValidator(_different)]
"""A list of names; as text, they stand between commas."""
