"""Syntax tree of a source file, however many threads of the test process use Python's parser."""

import ast
import contextlib


def parsed(source: str) -> ast.Module:
    """The tree of a text. Python 3.11 can fail if another thread is in its parser, too (python/cpython#106905)."""
    for _ in range(20):
        with contextlib.suppress(SystemError):
            return ast.parse(source)
    return ast.parse(source)
