"""Processor cores and memory that this process may use, by affinity and control groups."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import NamedTuple, TypeVar

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")

T = TypeVar("T")

_NO_LIMIT = 2**60
"""Bytes from which on a limit of version 1 is none: it has the largest number of pages then."""


class MemoryLimit(NamedTuple):
    """The bytes that a control group may use, and those that it uses for more than files that could be read again."""

    limit: int
    used: int


def own_cores() -> list[int]:
    """The cores' numbers in order: those of the process's affinity (`taskset`, a batch system), or else all cores.

    A container's CPU quota (`docker run --cpus`, a limit of Kubernetes) leaves the first ones, rounded up.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    quota = _quota()
    return cores if quota is None else cores[: max(1, ceil(quota))]


def memory_limit() -> MemoryLimit | None:
    """The memory limit that leaves the least: of the process's control groups and their parents; None without one."""
    found = _of_groups("memory", _memory_of_version_2, _memory_of_version_1)
    return min(found, key=lambda one: one.limit - one.used, default=None)


def _quota() -> float | None:
    """The smallest quota in cores of the process's control groups and their parents; None without one."""
    return min(_of_groups("cpu", _of_version_2, _of_version_1), default=None)


def _of_groups(
    controller: str, second: Callable[[Path], T | None], first: Callable[[Path], T | None]
) -> list[T]:  # fmt: skip
    """What the process's control groups and their parents have; `second` and `first` read one of either version."""
    found: list[T] = []
    with suppress(OSError, UnicodeDecodeError):
        for line in MEMBERSHIP.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" and not controllers:
                found += _up_to_root(CGROUPS, path, second)
            elif controller in controllers.split(","):
                for mount in (controller, "cpu,cpuacct") if controller == "cpu" else (controller,):
                    found += _up_to_root(CGROUPS / mount, path, first)
    return found


def _up_to_root(root: Path, path: str, read: Callable[[Path], T | None]) -> list[T]:
    """What a group and those above it have, up to the root; a container sees its own group as the root."""
    group = root / path.lstrip("/")
    found = [read(folder) for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return [one for one in found if one is not None]


def _memory_of_version_2(group: Path) -> MemoryLimit | None:
    with suppress(OSError, ValueError):  # "max" is no number
        limit = int((group / "memory.max").read_text())
        return MemoryLimit(limit, int((group / "memory.current").read_text()) - _reclaimable(group, "inactive_file"))
    return None


def _memory_of_version_1(group: Path) -> MemoryLimit | None:
    with suppress(OSError, ValueError):
        limit = int((group / "memory.limit_in_bytes").read_text())
        if limit < _NO_LIMIT:
            used = int((group / "memory.usage_in_bytes").read_text())
            return MemoryLimit(limit, used - _reclaimable(group, "total_inactive_file"))
    return None


def _reclaimable(group: Path, name: str) -> int:
    """Bytes of files that the system keeps in memory as long as no process needs it."""
    with suppress(OSError, ValueError):
        for line in (group / "memory.stat").read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


def _of_version_2(group: Path) -> float | None:
    with suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    return None


def _of_version_1(group: Path) -> float | None:
    with suppress(OSError, ValueError):
        quota = int((group / "cpu.cfs_quota_us").read_text())
        return quota / int((group / "cpu.cfs_period_us").read_text()) if quota > 0 else None
    return None
