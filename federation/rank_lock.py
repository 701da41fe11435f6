"""Lock of a rank's folder: one peer at a time runs in it, and other programs see whether one does, or begins to."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpeer.exceptions import FolderInUse, OutputError, not_written
from dpeer.results.files import make_folder

LOCK = ".lock"
"""In a rank's folder: held by its peer while that runs."""

_STARTS = "starts"
"""What stands in the lock of a peer that has read nothing yet."""


@contextmanager
def held(folder: Path, *, starts: bool = False) -> Iterator[None]:
    """Hold a rank's folder for as long as its peer runs.

    Args:
        folder: The rank's.
        starts: Whether the peer only begins to start, so that `starts` has it until `started` is called.

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
        lock.truncate(0)
        if starts:
            with contextlib.suppress(OSError):  # a full disk
                lock.write(_STARTS)
                lock.flush()
        yield


def no_locks(error: OSError) -> str:
    """What to do about a file system without locks, as its error says why."""
    return (
        f"its file system has no locks ({error.strerror}), by which one peer at a time runs in a folder: name an --out "
        "on a disk of this host, or mount the share with locks (NFS: version 4, or lockd)"
    )


def started(folder: Path) -> None:
    """Note that the peer that holds a rank's folder answers on its control socket."""
    with contextlib.suppress(OSError):
        os.truncate(folder / LOCK, 0)


def starts(folder: Path) -> bool:
    """Whether the peer that holds a rank's folder begins to start; of a folder that no peer holds it says nothing."""
    try:
        return (folder / LOCK).read_text() == _STARTS
    except (OSError, ValueError):
        return False
