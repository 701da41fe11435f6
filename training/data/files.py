"""Helpers of data set readers: find a folder or file, read .npz arrays, and report damage in one line."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import TaskError
from dpeer.training.errors import blame

_LISTED = 10
_PACKED = (".zip", ".tar", ".tgz", ".gz", ".bz2")


def folder(task: str, data: Any, holds: str, source: str, *places: str) -> Path:
    """The folder that holds the data: `data` itself, or one in it.

    Args:
        task: The task's name, for messages.
        data: What the user gave as ``--task-option data=``.
        holds: What it must hold, for messages.
        source: Where people get it.
        places: Folders in `data` that are looked at first, in this order.

    Raises:
        TaskError: There is no such folder.
    """
    if data is None:
        raise TaskError(f"task {task!r} needs --task-option data=DIR, the folder that holds {holds}; from {source}")
    if not isinstance(data, str) or not data:
        raise TaskError(f"task {task!r}: data = {data!r}: expected the name of the folder that holds {holds}")
    path = Path(data).expanduser()
    for place in places:
        if (path / place).is_dir():
            return path / place
    if path.is_dir():
        return path
    if path.is_file() and path.suffix in _PACKED:
        raise TaskError(f"task {task!r}: data = {data!r} is not a folder: unpack it and give the folder around {holds}")
    raise TaskError(f"task {task!r}: data = {data!r} is not a folder; expected one that holds {holds}, from {source}")


def need(task: str, path: Path, source: str) -> Path:
    """The path, if a file is there.

    Raises:
        TaskError: There is none; the message says what was expected where, and where people get it.
    """
    if not path.is_file():
        raise TaskError(f"task {task!r}: expected the file {path.name} in {path.parent}; from {source}")
    return path


def reading(task: str, path: Path, source: str) -> AbstractContextManager[None]:
    """Whatever goes wrong while a file is read becomes one line that names it.

    Raises:
        TaskError: The block raised something that is not dpeer's own.
    """
    return blame(f"task {task!r}: {path} is damaged or no such file", lambda: f"get it anew from {source}")


def read_npz(
    task: str, path: Path, source: str, names: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, NDArray[Any]]:
    """Arrays of an .npz file, by name; others that it may have are not read.

    Args:
        task: The task's name, for messages.
        path: The file.
        source: Where people get it.
        names: The arrays that it must have.
        optional: The arrays that it may have.

    Raises:
        TaskError: It is damaged, or lacks one of the arrays.
    """
    with reading(task, path, source), np.load(path, allow_pickle=False) as found:
        there = ", ".join(found.files[:_LISTED]) + (", ..." if len(found.files) > _LISTED else "")
        check(task, path, set(names) <= set(found.files), f"arrays {', '.join(names)}; there are {there or 'none'}")
        return {name: found[name] for name in (*names, *optional) if name in found.files}


def check(task: str, path: Path, fits: bool, expected: str) -> None:
    """Refuse content of another shape.

    Raises:
        TaskError: It does not fit.
    """
    if not fits:
        raise TaskError(f"task {task!r}: {path} does not hold what was expected: {expected}")


def whole(values: Any) -> NDArray[np.int64]:
    """Class numbers as int64; TypeError where they are not whole numbers."""
    array = np.asarray(values)
    return array.astype(np.int64, casting="same_kind" if array.size else "unsafe")  # an empty list has floats
