"""Telling a full disk from other errors, and which folder is on it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpeer.exceptions import DpeerError, OutputError

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def naming(folder: Path) -> Iterator[None]:
    """Within it a disk that is full, or a quota that is used up, is reported with this folder's name.

    Raises:
        OutputError: It is.
    """
    try:
        yield
    except DpeerError:
        raise
    except Exception as error:
        if not _is_full(error):
            raise
        raise OutputError(
            f"{str(folder)!r} cannot be written: no space is left on its disk, or in its quota; make room, then "
            "--resume goes on from the last completed round"
        ) from error


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in _FULL
    # safetensors has an error of its own, with the system's in words.
    return any(f"(os error {number})" in str(error) for number in _FULL)
