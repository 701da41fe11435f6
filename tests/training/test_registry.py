"""Objects that stand where names are expected."""

import json

from dpeer.training.registry import can_be_imported, given, reference


def test_a_name_is_returned_as_it_is() -> None:
    assert reference("digits") == "digits"
    assert reference(None) is None
    assert given("digits") is None
    assert can_be_imported("digits")


def test_a_function_of_a_module_is_named_as_one_would_write_it() -> None:
    name = reference(json.dumps)
    assert name == "json:dumps"
    assert given(name) is json.dumps
    assert reference(json.dumps) == name
    assert can_be_imported(name)


def test_two_functions_of_one_name_are_told_apart_and_cannot_be_imported() -> None:
    made = [lambda number=number: number for number in range(3)]
    names = [reference(one) for one in made]
    assert len({*names}) == 3
    assert [given(name) for name in names] == made
    assert not any(map(can_be_imported, names))
