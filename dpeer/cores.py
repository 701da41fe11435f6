"""Processor cores and memory that this process may use, by affinity and control groups."""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from typing import NamedTuple

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")

_NO_LIMIT = 2**60
"""Bytes from which on a limit of version 1 is none: it has the largest number of pages then."""


class MemoryLimit(NamedTuple):
    """The bytes that a control group may use, and those that it uses for more than files that could be read again."""

    limit: int
    used: int


def own_cores() -> list[int]:
    """The cores' numbers in order: those of the process's affinity (`taskset`, a batch system), or else all cores.

    A container's CPU quota (`docker run --cpus`, a limit of Kubernetes) leaves the first ones, rounded up: the smallest
    of the process's control groups and their parents.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    quotas = []
    for group in _groups("cpu"):
        given = _words(group / "cpu.max") or _words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us")
        if len(given) == 2 and all(map(str.isdecimal, given)):  # not so "max", and -1 of version 1
            quotas.append(int(given[0]) / int(given[1]))
    return cores[: max(1, ceil(min(quotas)))] if quotas else cores


def memory_limit() -> MemoryLimit | None:
    """The memory limit that leaves the least: of the process's control groups and their parents; None without one."""
    found = []
    for group in _groups("memory"):
        limit = _words(group / "memory.max") or _words(group / "memory.limit_in_bytes")
        used = _words(group / "memory.current") or _words(group / "memory.usage_in_bytes")
        words = _words(group / "memory.stat")
        parts = dict(zip(words[::2], words[1::2], strict=False))
        # Those of files that the system keeps in memory as long as no process needs it.
        files = parts.get("total_inactive_file") or parts.get("inactive_file", "0")
        if used and limit and limit[0].isdecimal() and int(limit[0]) < _NO_LIMIT:
            found.append(MemoryLimit(int(limit[0]), int(used[0]) - int(files)))
    return min(found, key=lambda one: one.limit - one.used, default=None)


def _groups(controller: str) -> Iterator[Path]:
    """The folders of the process's control groups of both versions, and of those above them.

    A container sees its own group as the root.
    """
    lines = [line.split(":", 2) for line in _words(MEMBERSHIP)]
    for number, controllers, path in (line for line in lines if len(line) == 3):
        if number == "0" and not controllers:
            mounts = [CGROUPS]
        elif controller in controllers.split(","):
            mounts = [CGROUPS / mount for mount in ({"cpu": ("cpu", "cpu,cpuacct")}.get(controller, (controller,)))]
        else:
            continue
        for root in mounts:
            group = root / path.lstrip("/")
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(root))


def _words(file: Path) -> list[str]:
    """The words of a file; none where it cannot be read."""
    try:
        return file.read_text().split()
    except (OSError, UnicodeDecodeError):
        return []
