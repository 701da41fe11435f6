"""What the readers share: one clear line for a file that is missing or damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import DpeerError, TaskError
from dpeer.training.errors import describe

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


@contextmanager
def reading(task: str, path: Path, source: str) -> Iterator[None]:
    """Whatever goes wrong while a file is read becomes one line that names it.

    Raises:
        TaskError: The block raised something that is not dpeer's own.
    """
    try:
        yield
    except DpeerError:
        raise
    except Exception as error:
        raise TaskError(
            f"task {task!r}: {path} is damaged or no such file: {describe(error)}; get it anew from {source}"
        ) from error


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
