"""Checks of a host: disk, writable paths and memory, each with how much is too little."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from dpeer.cores import memory_limit
from dpeer.federation.findings import Findings, Level
from dpeer.federation.rank_lock import no_locks
from dpeer.results.units import size

MEMINFO = Path("/proc/meminfo")

_LITTLE_DISK = 3
"""Times of what a run needs on disk that should be free: other programs write, too."""

_FILES = 100
"""Files of a run, at most, with drafts."""

_LITTLE_FILES = 1000
"""Files that should be free: other programs make some, too."""


def check_writable(findings: Findings, out: Path, folder: Path) -> None:
    """Whether a rank's folder in the run folder `out` can be made and written."""
    place = _existing(folder)
    trouble = None
    if (link := _dangling(folder)) is not None:
        trouble = f"{link} is a link to {link.readlink()}, which does not exist: make that folder, or remove the link"
    elif not place.is_dir():
        trouble = f"{place} is a file: name another folder"
    else:
        trouble = _refused(place)
    if trouble is not None:
        findings.fail("output", f"--out {str(out)!r}: {trouble}")
    else:
        findings.passed("output", f"{out} can be written{'' if folder.exists() else ', and will be made'}")
    if scratch_in(folder) is not None:
        findings.warn(
            "output",
            "no folder for temporary files can be written: set TMPDIR to one (libraries need it; in a container with a "
            "read-only root, mount a tmpfs at /tmp)",
        )


def scratch_in(folder: Path) -> Path | None:
    """Where temporary files go if the system has no folder for them: near a rank's; None if it has one."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return _existing(folder)
    return None


def check_disk(findings: Findings, folder: Path, needed: int) -> None:
    """Whether the disk of a rank's folder has room for a run of so many bytes, and for its files (inodes)."""
    place = _existing(folder)
    free = shutil.disk_usage(place).free
    words = f"{size(free)} are free at {place}, and a run takes about {size(needed)}"
    if free < needed:
        findings.fail("disk", f"{words}: make room, or name another --out")
    elif free < _LITTLE_DISK * needed:
        findings.warn("disk", f"{words}: little is left for others")
    else:
        findings.passed("disk", words)
    found = os.statvfs(place)
    if found.f_files and found.f_favail < _LITTLE_FILES:  # 0 where files are not counted, as on btrfs
        words = f"{found.f_favail:,} files can be made at {place}: remove some, or name another --out"
        findings.add("files", Level.FAIL if found.f_favail < _FILES else Level.WARN, words)


def available_memory() -> int | None:
    """Bytes of memory that a process can still get: of the host, and within its control group; None where unknown."""
    found = memory_limit()
    limits = [] if found is None else [max(0, found.limit - found.used)]
    with suppress(OSError, ValueError, IndexError):
        lines = MEMINFO.read_text().splitlines()
        limits += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return min(limits, default=None)


def check_memory(findings: Findings, needed: int, free: int | None) -> None:
    """Whether the memory that was free before the peer took any (None where unknown) suffices for it."""
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


def _existing(path: Path) -> Path:
    """The path, or the folder nearest above it that exists."""
    path = path.absolute()
    return next(one for one in (path, *path.parents) if one.exists())


def _dangling(path: Path) -> Path | None:
    """The link on the way to a path that leads nowhere."""
    return next((one for one in (path, *path.parents) if one.is_symlink() and not one.exists()), None)


def _refused(place: Path) -> str | None:
    """Why no file can be made and locked in a folder; None if one can."""
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                return no_locks(error)
    except OSError as error:
        return f"no file can be made in {place} ({error.strerror}): mend that, or name another folder"
    return None
