"""Number of processor cores that this process may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")


def own_cores() -> list[int]:
    """The cores' numbers in order: those of the process's affinity (`taskset`, a batch system), or else all cores.

    A container's CPU quota (`docker run --cpus`, a limit of Kubernetes) leaves the first ones, rounded up.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    quota = _quota()
    return cores if quota is None else cores[: max(1, ceil(quota))]


def _quota() -> float | None:
    """The smallest quota in cores of the process's control groups and their parents; None without one."""
    found = []
    with suppress(OSError, UnicodeDecodeError):
        for line in MEMBERSHIP.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" and not controllers:
                found += _quotas(CGROUPS, path, _of_version_2)
            elif "cpu" in controllers.split(","):
                for mount in ("cpu", "cpu,cpuacct"):
                    found += _quotas(CGROUPS / mount, path, _of_version_1)
    return min(found, default=None)


def _quotas(root: Path, path: str, read: Callable[[Path], float | None]) -> list[float]:
    """The quotas from a group up to the root; a container sees its own group as the root."""
    group = root / path.lstrip("/")
    return [quota for folder in (group, *group.parents) if folder.is_relative_to(root) and (quota := read(folder))]


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
