"""Checks of a host: disk, writable paths, memory, shared memory and clock, each with how much is too little."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from dpeer.cores import memory_limit
from dpeer.federation.findings import Findings
from dpeer.results.units import duration, size

MEMINFO = Path("/proc/meminfo")
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at, and nothing is made in it

_LITTLE_SHARED = 256 * 2**20
"""Bytes below which a DataLoader with workers is likely to end with a bus error; a container has 64 MiB by default."""

_LITTLE_DISK = 3
"""Times of what a run needs on disk that should be free: other programs write, too."""

_ASKEW = 120.0
"""Seconds by which a file may be from the future: file servers have clocks of their own."""


def existing(path: Path) -> Path:
    """The path, or the folder nearest above it that exists."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.exists())


def check_writable(findings: Findings, out: Path, folder: Path) -> None:
    """Whether a rank's folder can be made and written.

    Args:
        findings: Where to note it.
        out: The run folder, as the user has named it.
        folder: The rank's folder.
    """
    place = existing(folder)
    if not place.is_dir():
        findings.fail("output", f"--out {str(out)!r}: {place} is a file: name another folder")
    elif _read_only(place):
        findings.fail(
            "output", f"--out {str(out)!r}: {place} is on a read-only file system: name a folder on a disk that can be "
            "written, such as a mounted volume"
        )  # fmt: skip
    elif not os.access(place, os.W_OK | os.X_OK):
        findings.fail(
            "output", f"--out {str(out)!r}: the user of this process (uid {os.getuid()}) may not write {place}: make "
            "it this user's (chown), or name another folder"
        )  # fmt: skip
    else:
        findings.passed("output", f"{out} can be written{'' if folder.exists() else ', and will be made'}")
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        findings.warn(
            "output", "no folder for temporary files can be written: set TMPDIR to one (libraries need it; in a "
            "container with a read-only root, mount a tmpfs at /tmp)"
        )  # fmt: skip


def _read_only(path: Path) -> bool:
    with suppress(OSError):
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return False


def check_disk(findings: Findings, folder: Path, needed: int) -> None:
    """Whether the disk has room for a run.

    Args:
        findings: Where to note it.
        folder: The rank's folder.
        needed: Bytes that the run takes at most.
    """
    place = existing(folder)
    free = shutil.disk_usage(place).free
    words = f"{size(free)} are free at {place}, and a run takes about {size(needed)}"
    if free < needed:
        findings.fail("disk", f"{words}: make room, or name another --out")
    elif free < _LITTLE_DISK * needed:
        findings.warn("disk", f"{words}: little is left for others")
    else:
        findings.passed("disk", words)


def available_memory() -> int | None:
    """Bytes of memory that a process can still get: of the host, and within its control group; None where unknown."""
    found = memory_limit()
    limits = [] if found is None else [max(0, found.limit - found.used)]
    with suppress(OSError, ValueError, IndexError):
        lines = MEMINFO.read_text().splitlines()
        limits += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min(limits, default=None)


def check_memory(findings: Findings, needed: int, free: int | None) -> None:
    """Whether the memory suffices.

    Args:
        findings: Where to note it.
        needed: Bytes that the peer takes.
        free: Bytes that were available before it took any; None where that is unknown.
    """
    if free is None:
        findings.passed("memory", f"about {size(needed)} are needed; how much is free is not known on this system")
        return
    words = f"{size(free)} are free, and the peer takes about {size(needed)}"
    if free < needed:
        findings.fail("memory", f"{words}: free some, raise the container's limit, or lower --batch-size")
    elif free < 1.25 * needed:
        findings.warn("memory", f"{words}: a little more may end it")
    else:
        findings.passed("memory", words)


def check_shared_memory(findings: Findings, *, own_code: bool) -> None:
    """Whether /dev/shm is large enough, which dpeer itself does not use.

    Args:
        findings: Where to note it.
        own_code: Whether the task is a user's own code, which may load data in processes.
    """
    if not SHARED_MEMORY.is_dir():
        findings.passed("shared memory", "this system has no /dev/shm, and dpeer needs none")
        return
    free = shutil.disk_usage(SHARED_MEMORY).free
    if own_code and free < _LITTLE_SHARED:
        findings.warn(
            "shared memory", f"{size(free)} are free in /dev/shm: a DataLoader with workers, in a task of your own, "
            "may end with a bus error: give the container more (docker run --shm-size 1g)"
        )  # fmt: skip
    else:
        findings.passed("shared memory", f"{size(free)} are free in /dev/shm; dpeer itself needs none")


def check_clock(findings: Findings, files: Sequence[Path], now: float | None = None) -> None:
    """Whether the clock is plausible; only the times in logs depend on it.

    Args:
        findings: Where to note it.
        files: Files that were written before.
        now: The clock's time in seconds since 1970; read if None.
    """
    now = time.time() if now is None else now
    written = [(path.stat().st_mtime, path) for path in files if path.exists()]
    shown = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now))
    latest, path = max(written, default=(now, Path()))
    if latest > now + _ASKEW:
        findings.warn(
            "clock", f"it shows {shown}, {duration(latest - now)} before {path} was written: set it, or the times in "
            "logs are wrong (nothing else depends on it)"
        )  # fmt: skip
    else:
        findings.passed("clock", f"{shown}; only the times in logs depend on it")
