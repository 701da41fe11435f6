"""The words of the source: a module's first line says what it is, and no text holds a riddling word."""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.syntax_trees import parsed
from tests.test_layers import ROOMS, ROOT

SOURCES = sorted(path for room in ("dpeer", *ROOMS) for path in (ROOT / room).rglob("*.py"))
RIDDLES = re.compile(r"\b(told|whoever|[Tt]here (?:is|are)|nobody|somebody|said)\b")
"""Name the thing in place of these: "the sender" for "whoever sends", "has no" for "there is no"."""

LONGEST = 25
"""Words of a first line."""

MAY_STAY = {"training/dpsgd/backends.py": 1}
"""Such words that are not our own, by module: the filtered warning is PyTorch's."""


def first_line(path: Path) -> str:
    return (ast.get_docstring(parsed(path.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]


def texts(path: Path) -> Iterator[str]:
    """The docstrings, messages and comments of a module."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_first_line_of_a_module_is_one_short_sentence() -> None:
    lines = {name(path): first_line(path) for path in SOURCES}
    assert len(lines) > 200
    assert {
        name: line
        for name, line in lines.items()
        if not line.endswith(".") or ". " in line or len(line.split()) > LONGEST
    } == {}


def test_no_two_modules_have_the_same_first_line() -> None:
    assert [line for line, count in Counter(map(first_line, SOURCES)).items() if count > 1] == []


def test_no_docstring_comment_or_message_holds_a_riddling_word() -> None:
    found = {name(path): [m[0] for text in texts(path) for m in RIDDLES.finditer(" ".join(text.split()))]
             for path in SOURCES}  # fmt: skip
    assert {name: len(words) for name, words in found.items() if words} == MAY_STAY
