"""Each error of dpeer is one line that names a key or a value; tests/conftest.py watches those of all tests."""

import ast

import pytest

from dpeer.exceptions import ConfigurationError, DpeerError, UnknownName
from tests.error_texts import LONGEST, NAMED, kinds_of, raised_texts, unfit, watched_error_texts
from tests.syntax_trees import parsed
from tests.test_words import SOURCES, name

NO_TEXTS = {
    "Interrupted": "no one reads it",
    "ProtocolError": "a word to count by",
    "Undecodable": "a word to count by",
    "UnknownName": "a noun, of which the class makes the text",
}
"""Classes whose argument is no text for a reader."""

NAMELESS = {
    "privacy/mechanism.py": ["the sum of clipped gradients is not finite, which no noise would hide"],
}
"""Texts that name nothing: nothing that was given is at fault."""


def flaws(tree: ast.Module, kinds: set[str]) -> list[str]:
    """The texts of a module that are more than a line, too long, or name nothing."""
    return [
        text
        for kind, text, has_value in raised_texts(tree, kinds)
        if kind not in NO_TEXTS and (unfit(text) or not (has_value or NAMED.search(text)))
    ]


def test_every_raise_states_one_line_that_names_something() -> None:
    trees = {name(path): parsed(path.read_text(encoding="utf-8")) for path in SOURCES}
    kinds = kinds_of("DpeerError", trees.values()) | {"not_written", "not_bound"}
    assert sum(1 for tree in trees.values() for _ in raised_texts(tree, kinds)) > 300
    found = {name: flaws(tree, kinds) for name, tree in trees.items()}
    assert {name: texts for name, texts in found.items() if texts} == NAMELESS


@pytest.mark.parametrize("text", ["two\nlines", "x" * (LONGEST + 1)])
def test_an_unfit_text_of_a_test_is_seen(text: str) -> None:
    assert "__init__" in vars(DpeerError), "each test is watched"
    with pytest.raises(AssertionError, match="ConfigurationError"), watched_error_texts():
        ConfigurationError(text)
    with pytest.raises(AssertionError, match="UnknownName"), watched_error_texts():
        UnknownName("key", text, ["keys"], "a file\nof two lines" + text)
