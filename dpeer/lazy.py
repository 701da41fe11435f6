"""Lazy imports of a package's public names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's ``__getattr__`` (PEP 562) that finds each name where it lives, the first time it is asked for.

    Args:
        package: The package's own name.
        places: By name, the module that has it.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(places[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
