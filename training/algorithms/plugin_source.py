"""The source that a user's own algorithm is written in, as it was when the class was made.

By its hash peers, and runs that are resumed, notice different versions. It is read when Python makes the class: a file
that is edited later says nothing of the code that runs.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

_BUILT_IN = "dpeer."
_PYTHON = Path(sysconfig.get_paths()["stdlib"]).resolve()
_INSTALLED = {"site-packages", "dist-packages"}

_Files = dict[Path, bytes] | None
"""The content of files by path; None where there is something of which no file is known."""

_READ: WeakKeyDictionary[type, tuple[bytes | None, _Files]] = WeakKeyDictionary()


def note_source(algorithm: type) -> None:
    """Read the files of a class that is being made: that of its module, and those of its methods and its mixins."""
    if not algorithm.__module__.startswith(_BUILT_IN):
        _READ[algorithm] = _module(algorithm), _files(algorithm)


def source_hash(algorithm: type) -> str | None:
    """SHA-256 (hex) of the files that a class and those it derives from are written in, dpeer's and Python's left out.

    By it peers notice different versions. Functions that these files import are not looked into, but methods are that
    come from elsewhere. None where there is no such file, as for a class that was typed into an interpreter.
    """
    content, found, others = hashlib.sha256(), set[bytes](), dict[Path, bytes]()
    for one in inspect.getmro(algorithm):
        if one in _READ:
            text, files = _READ[one]
            if files is None:
                return None
            if text is not None:
                content.update(text)
                found.add(text)
            others |= {path: read for path, read in files.items() if path not in others}
    for read in others.values():
        if read not in found:
            content.update(read)
            found.add(read)
    return content.hexdigest()


def _module(one: type) -> bytes | None:
    """The file of the module that a class says it is of, but for one of Python itself."""
    file = getattr(sys.modules.get(one.__module__), "__file__", None)
    return _read(file) if isinstance(file, str) else None


def _files(algorithm: type) -> _Files:
    files: dict[Path, bytes] = {}
    for one in inspect.getmro(algorithm):
        if one in _READ or one.__module__.startswith(_BUILT_IN) or _of_python(one):
            continue
        own = {
            Path(file).resolve(): read
            for file in (getattr(sys.modules.get(one.__module__), "__file__", None), *_methods(one))
            if isinstance(file, str) and (read := _read(file)) is not None
        }
        if not own:
            return None
        files |= own
    return files


def _methods(one: type) -> Iterator[str]:
    """The files that the methods of a class are written in."""
    for value in vars(one).values():
        for function in _functions(value):
            inner = inspect.unwrap(function)
            if inspect.isfunction(inner) and not (inner.__module__ or "").startswith(_BUILT_IN):
                yield inner.__code__.co_filename


def _functions(value: Any) -> tuple[Any, ...]:
    if isinstance(value, property):
        return tuple(one for one in (value.fget, value.fset, value.fdel) if one is not None)
    if isinstance(value, staticmethod | classmethod):
        return (value.__func__,)
    if isinstance(value, functools.partialmethod | functools.cached_property):
        return (value.func,)
    return (value,) if inspect.isfunction(value) else ()


def _read(file: str) -> bytes | None:
    """A file's content; None if there is no such file, or it is one of Python itself."""
    path = Path(file).resolve()
    if _within_python(path):
        return None
    try:
        return path.read_bytes()
    except OSError:
        return None


def _within_python(path: Path) -> bool:
    return path.is_relative_to(_PYTHON) and not _INSTALLED & {*path.relative_to(_PYTHON).parts}


def _of_python(one: type) -> bool:
    """Whether a class is of Python's own library: found there, for a class may say that it is of any module."""
    module = one.__module__.partition(".")[0]
    named = getattr(sys.modules.get(one.__module__), one.__qualname__, None)
    return module in sys.stdlib_module_names and module != "__main__" and named is one
