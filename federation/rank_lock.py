"""Lock of a rank's folder: one peer at a time runs in it, and other programs see whether one does."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpeer.exceptions import FolderInUse, OutputError, not_written
from dpeer.results.files import make_folder

LOCK = ".lock"
"""In a rank's folder: held by its peer while that runs."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a rank's folder for as long as its peer runs.

    Raises:
        FolderInUse: another running peer holds it.
        OutputError: The folder or its lock cannot be made, or the file system has no locks.
    """
    try:
        make_folder(folder)
        lock = (folder / LOCK).open("a")
    except OSError as error:
        raise not_written(repr(str(folder)), error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUse(
                f"{str(folder)!r} is in use by a running peer: stop it, or name another folder"
            ) from error
        except OSError as error:
            raise OutputError(f"{str(folder)!r}: {no_locks(error)}") from error
        yield


def no_locks(error: OSError) -> str:
    """What to do about a file system without locks, as its error says why."""
    return (
        f"its file system has no locks ({error.strerror}), by which one peer at a time runs in a folder: name an --out "
        "on a disk of this host, or mount the share with locks (NFS: version 4, or lockd)"
    )
