"""What every text of an error is like: one line that names something."""

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from dpeer.exceptions import DpeerError, ProtocolError

LONGEST = 700
NAMED = re.compile(
    r"--[a-z]"  # a flag
    r"|(?<!\w)(['\"`])[^'\"`]+\1"  # a name in quotes
    r"|\b\w+ ?= ?\w"  # an option with its value
    r"|\bdpeer\.\w"  # a function of the API
    r"|\b[A-Z]+_[A-Z_]+\b"  # a variable of the environment
    r"|^\w+: "  # a key in front
)


def unfit(text: str) -> bool:
    """Whether a text has more lines than one, or is too long to be read in a terminal."""
    return len(text.splitlines()) > 1 or len(text) > LONGEST


@contextmanager
def watched_error_texts() -> Iterator[None]:
    """Fail at the end if an error that dpeer has made meanwhile has a text that is unfit.

    A `ProtocolError` has a stranger's words, which are cleaned where they are logged.
    """
    seen: list[str] = []

    def init(self: DpeerError, *args: object) -> None:
        Exception.__init__(self, *args)
        if unfit(str(self)) and not isinstance(self, ProtocolError):
            seen.append(f"{type(self).__name__}: {self}")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(DpeerError, "__init__", init)
        yield
    assert not seen, seen


def kinds_of(base: str, trees: Iterable[ast.Module]) -> set[str]:
    """The names of a class and of all that are below it, as the sources state them."""
    bases = {
        node.name: {ast.unparse(one).rpartition(".")[2] for one in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {base}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def raised_texts(tree: ast.Module, kinds: set[str]) -> Iterator[tuple[str, str, bool]]:
    """Each `raise` of these classes with a text in place: the class, the literal parts, and whether it has a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            kind, text = ast.unparse(node.exc.func).rpartition(".")[2], node.exc.args[0]
            if kind in kinds and isinstance(text, ast.JoinedStr):
                parts = [part.value for part in text.values if isinstance(part, ast.Constant)]
                yield kind, "".join(map(str, parts)), len(parts) < len(text.values)
            elif kind in kinds and isinstance(text, ast.Constant):
                yield kind, str(text.value), False


@contextmanager
def refused(error: type[BaseException], *fragments: str) -> Iterator[None]:
    """Expect an error of this class with these fragments in its text: the key and the value, not the whole sentence."""
    with pytest.raises(error) as caught:
        yield
    text = str(caught.value)
    assert all(fragment in text for fragment in fragments), text
