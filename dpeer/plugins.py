"""Plug-ins: tasks, algorithms, codecs and graphs of a user's own, named ``FILE.py:NAME`` or ``MODULE:NAME``.

Settings, files and messages between processes know names only. An object that a script hands over gets such a name, by
which this process finds that very object; another process imports the file or module.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from dpeer.exceptions import ConfigurationError, describe, did_you_mean

_objects: dict[str, Any] = {}
_files: dict[Path, tuple[ModuleType, object]] = {}
"""By file the module, and what changes with the file; see `forget_changed`."""


@dataclass(frozen=True)
class Kind:
    """A kind of plug-in.

    Attributes:
        name: "task", "algorithm", ...
        noun: What a user writes for it: "factory", "class" or "function".
        example: What may stand after the colon.
        error: What is raised.
        suits: Whether an object of a module could be meant, for advice.
    """

    name: str
    noun: str
    example: str
    error: type[ConfigurationError]
    suits: Callable[[Any], bool]


def reference(thing: Any) -> Any:
    """A name for a function or class, by which `load` finds it; anything else is returned as it is.

    The name is ``FILE.py:NAME`` for what the running script defines, and ``MODULE:NAME`` else.
    """
    if isinstance(thing, str) or not callable(thing):
        return thing
    first = name = _name_of(thing)
    others = itertools.count(2)
    while _objects.setdefault(name, thing) is not thing:  # two lambdas of one function, a notebook's cell run again
        name = f"{first}#{next(others)}"
    return name


def is_importable(name: str) -> bool:
    """Whether another process can import what a name stands for: not so a lambda or a notebook's function."""
    where, _, attribute = name.rpartition(":")
    return name not in _objects or (where != "__main__" and attribute.isidentifier())


@contextmanager
def load(kind: Kind, spec: str) -> Iterator[Any]:
    """Find what a user named; within the block the folder of its file is the first where imports are looked for.

    A module can so import its siblings, as it can when run as a script. Afterwards its folder is the last, for imports
    inside functions. A file is imported once, under a name of its own, until `forget_changed` finds it changed.

    Args:
        kind: What is meant.
        spec: ``path/to/file.py:NAME``, ``package.module:NAME``, or what `reference` gave.

    Raises:
        ConfigurationError: Of the kind's class: it cannot be imported, or has nothing of that name.
    """
    if spec in _objects:
        yield _objects[spec]
        return
    what = f"{kind.name} {spec!r}"
    where, colon, name = spec.rpartition(":")
    if not colon:
        raise kind.error(f"{what} names no {kind.noun}; write {f'{spec}:{kind.example}'!r}")
    with _imported(what, where, kind.error) as module:
        if not hasattr(module, name):
            there = [n for n, v in vars(module).items() if kind.suits(v) and v.__module__ == module.__name__]
            raise kind.error(
                f"{what} has no {name!r}: {did_you_mean(name, there)}it has {', '.join(there) or '(none)'}"
            )
        yield getattr(module, name)


@functools.cache
def source_hash(thing: type | Callable[..., Any]) -> str | None:
    """SHA-256 (hex) of the files of a function, or of a class and its bases, as they are when this is first asked.

    By it peers notice different versions. dpeer's own files and Python's are left out, and what these files import is
    not looked into. None where no file is known, as for a class that was typed into an interpreter.
    """
    content = hashlib.sha256()
    seen: set[bytes] = set()
    for one in inspect.getmro(thing) if isinstance(thing, type) else (thing,):
        top = (one.__module__ or "__main__").partition(".")[0]
        if top == "dpeer" or (top in sys.stdlib_module_names and top != "__main__"):
            continue
        file = getattr(sys.modules.get(one.__module__), "__file__", None)
        if file is None or not Path(file).is_file():
            return None
        text = Path(file).read_bytes()
        if text not in seen:
            content.update(text)
            seen.add(text)
    return content.hexdigest()


def check_source(what: str, thing: type | Callable[..., Any], error: type[ConfigurationError]) -> None:
    """Refuse code of which no file is known: peers of other processes could not tell whether theirs is the same.

    Raises:
        ConfigurationError: Of the class `error`: no file is known.
    """
    if source_hash(thing) is None:
        raise error(
            f"{what}: no file is known that it, or a class that it derives from, is written in, so that peers could "
            "not tell whether theirs is the same: write it into a file, or run all peers in one process with dpeer "
            "simulate"
        )


@contextmanager
def _imported(what: str, where: str, error: type[ConfigurationError]) -> Iterator[ModuleType]:
    path = Path(where) if where.endswith(".py") or "/" in where else None
    if path is not None and not path.is_file():
        raise error(f"{what}: no such file: {str(path)!r} (the current folder is {Path.cwd()})")
    entry = str(path.resolve().parent if path else Path.cwd())
    sys.path.insert(0, entry)
    try:
        try:
            module = importlib.import_module(where) if path is None else _import_file(path.resolve())
        except (Exception, SystemExit) as reason:  # a script without a main guard may well exit
            raise error(f"{what} cannot be imported: {describe(reason)}") from reason
        yield module
    finally:
        sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def forget_changed() -> None:
    """Have files that were edited since their import imported anew; only between runs, which must not change midway."""
    for path, (_, mark) in [*_files.items()]:
        if _mark(path) != mark:
            del _files[path]


def _mark(path: Path) -> object:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


class _Source(SourceFileLoader):
    """Compiles a file as it is: Python's cache takes one of the same second and the same length for it."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import_file(path: Path) -> ModuleType:
    if path in _files:
        return _files[path][0]
    mark = _mark(path)
    name = f"dpeer_user_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if path.suffix != ".py":
        raise ImportError(f"not a Python file: {path}")
    found = importlib.util.spec_from_file_location(name, path, loader=_Source(name, str(path)))
    assert found is not None, "a loader is given"
    assert found.loader is not None, "it is that one"
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up by name
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _files[path] = module, mark
    return module


def _name_of(thing: Callable[..., Any]) -> str:
    module = getattr(thing, "__module__", None) or "__main__"
    attribute = getattr(thing, "__qualname__", type(thing).__qualname__)
    file = getattr(sys.modules.get(module), "__file__", None)
    found = getattr(sys.modules.get(module), attribute, None)
    if module == "__main__" and file is not None and found is thing:
        return f"{Path(file).resolve()}:{attribute}"
    return f"{module}:{attribute}" if found is thing else f"__main__:{attribute}"
