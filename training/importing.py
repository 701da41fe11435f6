"""Importing users' files (``path/to/file.py``) and modules (``package.module``), once in a process."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from dpeer.exceptions import ConfigurationError
from dpeer.training.errors import describe

_files: dict[Path, ModuleType] = {}


@contextmanager
def imported(what: str, where: str, error: type[ConfigurationError]) -> Iterator[ModuleType]:
    """Import a user's file or module; within the block its folder is the first where imports are looked for.

    A module can so import its siblings, as it can when run as a script. Afterwards its folder is the last, for imports
    inside functions. A file is imported under a name of its own: neither its stem nor its folder needs to be unique.

    Args:
        what: What is asked for, for messages, such as ``task 'mine.py:task'``.
        where: ``path/to/file.py`` or ``package.module``.
        error: What is raised.

    Raises:
        ConfigurationError: Of the class `error`: there is no such file, or it cannot be imported.
    """
    path = Path(where) if where.endswith(".py") or "/" in where else None
    if path is not None and not path.is_file():
        raise error(f"{what}: there is no file {str(path)!r} (the current folder is {Path.cwd()})")
    entry = str(path.resolve().parent if path else Path.cwd())
    sys.path.insert(0, entry)
    try:
        try:
            module = importlib.import_module(where) if path is None else _import_file(path.resolve())
        # A script without a main guard may well exit.
        except (Exception, SystemExit) as reason:
            raise error(f"{what} cannot be imported: {describe(reason)}") from reason
        yield module
    finally:
        sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def _import_file(path: Path) -> ModuleType:
    if path in _files:
        return _files[path]
    name = f"dpeer_user_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise ImportError(f"not a Python file: {path}")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up by name
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _files[path] = module
    return module
