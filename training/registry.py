"""Tasks and algorithms that a script hands over as objects instead of naming them.

Settings, files and messages between processes know names only. So an object gets a name by which this process finds
that very object; another process finds it by importing the file or the module that the name tells of.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_GIVEN: dict[str, Any] = {}


def reference(thing: Any) -> Any:
    """A name for a function or class, by which `given` finds it; anything else is returned as it is.

    The name is ``FILE.py:NAME`` for what the running script defines, and ``MODULE:NAME`` else.
    """
    if isinstance(thing, str) or not callable(thing):
        return thing
    first = name = _name(thing)
    others = itertools.count(2)
    while _GIVEN.setdefault(name, thing) is not thing:  # two lambdas of one function, a notebook's cell run again, ...
        name = f"{first}#{next(others)}"
    return name


def given(name: str) -> Any:
    """What was given under this name in this process; None if nothing was."""
    return _GIVEN.get(name)


def can_be_imported(name: str) -> bool:
    """Whether another process could find what a name stands for: a lambda or a notebook's function it cannot."""
    where, _, attribute = name.rpartition(":")
    return name not in _GIVEN or (where != "__main__" and attribute.isidentifier())


def _name(thing: Callable[..., Any]) -> str:
    module = getattr(thing, "__module__", None) or "__main__"
    attribute = getattr(thing, "__qualname__", type(thing).__qualname__)
    file = getattr(sys.modules.get(module), "__file__", None)
    found = getattr(sys.modules.get(module), attribute, None)
    if module == "__main__" and file is not None and found is thing:
        return f"{Path(file).resolve()}:{attribute}"
    if found is thing:
        return f"{module}:{attribute}"
    return f"__main__:{attribute}"
