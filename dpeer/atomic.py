"""Atomic replacement of a file, of which readers see the old content or the new, and flushing to disk."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MOST_LINKS = 40
"""Links that a path may lead through, as on Linux."""


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """An empty draft, which takes the place of the file when the block ends, and is removed where the block raises.

    A link is followed, and an existing file keeps its mode and, where the system allows it, its owner. What is no
    regular file (a pipe, ``/dev/stdout``) stays what it is: the finished draft is copied into it.

    The draft is made anew beside the file: a planted link under its name is removed and not followed.

    Args:
        path: The file.
        mode: Of a file that does not exist yet, less the bits of the umask.

    Raises:
        OSError: The draft cannot be made, or cannot take the place.
    """
    try:
        before = path.stat()
    except FileNotFoundError:
        before = None
    if _descriptor(path) is not None or (before is not None and not stat.S_ISREG(before.st_mode)):
        with _copied_into(path) as draft:
            yield draft
        return
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.tmp")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode if before is None else 0o600))
    try:
        yield draft
        if before is not None:
            _take_after(draft, before)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def owner_only(path: str, flags: int) -> int:
    """An opener for `open`: a file that it makes can be read by its owner alone."""
    return os.open(path, flags, 0o600)


def flush(path: Path) -> None:
    """Flush a file's content to disk, or of a folder the names in it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _copied_into(path: Path) -> Iterator[Path]:
    """A draft in a private folder, whose content is written into a pipe or a device when the block ends."""
    with tempfile.TemporaryDirectory(prefix="dpeer-") as folder:
        draft = Path(folder) / "draft"
        draft.touch(mode=0o600)
        yield draft
        number = _descriptor(path)
        sink = path.open("wb") if number is None else os.fdopen(os.dup(number), "wb")
        with draft.open("rb") as source, sink:
            shutil.copyfileobj(source, sink)


def _descriptor(path: Path) -> int | None:
    """The number of an open file of this process that a path names, such as ``/dev/stdout``; None for any other path.

    It may be a regular file (``> out.txt``), to whose end other programs write as well.
    """
    for _ in range(_MOST_LINKS):
        if path.name.isdecimal() and os.path.realpath(path.parent) in (f"/proc/{os.getpid()}/fd", "/dev/fd"):
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None


def _take_after(draft: Path, before: os.stat_result) -> None:
    """Give a draft the owner and the mode of the file that it replaces."""
    mode = stat.S_IMODE(before.st_mode)
    if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.chown(draft, before.st_uid, before.st_gid)
        except OSError:  # who is not root gives no file away: what its group could read, another group must not
            mode &= ~stat.S_IRWXG
    draft.chmod(mode)
