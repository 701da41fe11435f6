"""Errors of the machine in one line: a disk that cannot be written, and memory or threads that are not given."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpeer.exceptions import ConfigurationError, DpeerError, OutputError

_GOES_ON = "then --resume goes on from the last completed round"

_FULL = "no space is left on its disk, or in its quota; make room"

_DISK = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "a file is longer than the limit allows (ulimit -f); raise it",
    errno.EROFS: "its file system is read-only; mount it writable",
    errno.EIO: "its disk reports an input/output error; check the disk",
    errno.ESTALE: "its network file system has a stale file handle; mount it again",
}
"""By error number, what keeps a folder from being written and what to do."""

_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory")
"""What libraries that raise a RuntimeError of their own say of memory."""


@contextmanager
def naming(folder: Path, typed: Path | None = None) -> Iterator[None]:
    """Within it errors of the machine end a peer with one line; of a disk, with this folder's name.

    Args:
        folder: The folder.
        typed: How the user has named it; None for the same.

    Raises:
        OutputError: The folder cannot be written: its disk is full, read-only or broken, or the folder was deleted.
        ConfigurationError: The system gives no more memory, or no more threads.
    """
    named = str(typed or folder)
    try:
        yield
    except DpeerError as error:
        why = None if error.__cause__ is None else _of_limits(error.__cause__)
        if why is None:
            raise
        raise ConfigurationError(f"{why}, {_GOES_ON} ({str(folder)!r}; {str(error).partition(': ')[0]})") from error
    except Exception as error:
        why = _of_disk(error, folder)
        if why is not None:
            raise OutputError(f"{named!r} cannot be written: {why}, {_GOES_ON}") from error
        why = _of_limits(error)
        if why is None:
            raise
        raise ConfigurationError(f"{why}, {_GOES_ON} ({named!r})") from error


def _of_disk(error: Exception, folder: Path) -> str | None:
    if isinstance(error, OSError):
        if isinstance(error, FileNotFoundError) and not folder.exists():
            return "the folder was deleted in mid-run; restore it"
        return _DISK.get(error.errno or 0)
    # safetensors has an error of its own, with the system's in words.
    text = str(error)
    if f"(os error {errno.ENOENT})" in text and not folder.exists():
        return "the folder was deleted in mid-run; restore it"
    return next((why for number, why in _DISK.items() if f"(os error {number})" in text), None)


def _of_limits(error: BaseException) -> str | None:
    text = str(error)
    if isinstance(error, RuntimeError) and "can't start new thread" in text:
        return "the system gives no more threads; raise the limit (ulimit -u, or the container's of processes)"
    no_memory = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if no_memory or (isinstance(error, RuntimeError) and any(words in text for words in _MEMORY)):
        return "no memory is left; raise the limit (ulimit -v, or the container's), or lower --batch-size"
    return None
