"""The options of built-in models: the keyword arguments of the functions that make them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from dpeer.exceptions import TaskError, UnknownName

Maker = Callable[..., Any]


def options_of(make: Maker) -> dict[str, Any]:
    """The default value of each option, by name, in the order in which the function states them."""
    stated = inspect.signature(make).parameters.values()
    return {one.name: one.default for one in stated if one.kind is one.KEYWORD_ONLY}


def checked(model: str, make: Maker, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values that were given, each of its option's type and within its limits.

    Args:
        model: The model's name, for messages.
        make: The function that makes it; its annotations say types, and limits as pydantic's `Field` in `Annotated`.
        given: Values by name. A whole number will do where the option is a float; nothing else is converted.

    Raises:
        UnknownName: The model has no option of that name; the error names those that there are.
        TaskError: A value is of another type, or beyond the option's limits.
    """
    known = options_of(make)
    for name in given:
        if name not in known:
            raise UnknownName(f"option of {model}", name, known or ["(none)"], "--model-option")
    try:
        found = _table(make).model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        message = first["msg"].removeprefix("Value error, ").lower()
        raise TaskError(f"--model-option {name}={given[name]}: {message} (--model {model})") from error
    return {name: getattr(found, name) for name in given}


@cache
def _table(make: Maker) -> type[BaseModel]:
    hints = get_type_hints(make, include_extras=True)
    fields: dict[str, Any] = {name: (hints[name], default) for name, default in options_of(make).items()}
    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return create_model("ModelOptions", __config__=config, **fields)
