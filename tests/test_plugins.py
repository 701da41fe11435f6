"""Plug-ins: names for objects, and finding what a name stands for."""

import inspect
import json
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.plugins import Kind, is_importable, load, reference

FUNCTION = Kind("thing", "function", "thing", ConfigurationError, inspect.isfunction)


def found(name: str) -> Any:
    with load(FUNCTION, name) as thing:
        return thing


def test_a_name_is_returned_as_it_is() -> None:
    assert reference("digits") == "digits"
    assert reference(None) is None
    assert is_importable("digits")


def test_a_function_of_a_module_is_named_as_one_would_write_it() -> None:
    name = reference(json.dumps)
    assert name == "json:dumps"
    assert found(name) is json.dumps
    assert reference(json.dumps) == name
    assert is_importable(name)


def test_two_functions_of_one_name_are_told_apart_and_cannot_be_imported() -> None:
    made = [lambda number=number: number for number in range(3)]
    names = [reference(one) for one in made]
    assert len({*names}) == 3
    assert [found(name) for name in names] == made
    assert not any(map(is_importable, names))
