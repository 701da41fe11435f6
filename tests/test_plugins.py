"""Plug-ins: names for objects, and finding what a name stands for."""

import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import dpeer
from dpeer.exceptions import ConfigurationError
from dpeer.plugins import Kind, forget_changed, is_importable, load, reference

EXAMPLES = Path(__file__).parents[1] / "examples"
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


def test_a_file_that_was_edited_within_a_second_to_the_same_length_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's cache of compiled files goes by whole seconds and the length."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "edited.py"
    for number in range(3):
        file.write_text(f"def thing():\n    return {number}\n")
        os.utime(file, ns=(10**18 + number, 10**18 + number))
        forget_changed()
        assert found(f"{file}:thing")() == number


@pytest.mark.slow
def test_a_run_with_the_examples_graph_and_codec(tmp_path: Path) -> None:
    settings = dpeer.Settings(
        size=4, rounds=2, body_epochs=1, finish="none", alone="never", out=tmp_path / "run",
        topology=f"{EXAMPLES / 'own_graph.py'}:two_rings", compress=f"{EXAMPLES / 'own_codec.py'}:OneByte",
    )  # fmt: skip
    run = dpeer.run(settings)
    assert run.summary["topology"].endswith("own_graph.py:two_rings")
    assert run.summary["accuracy_mean"] > 0.5
    sent = run.summary["bytes_sent"] / (2 * 6)
    assert sent < 1.3 * run.summary["body_parameters"], "about a byte a value and message"
