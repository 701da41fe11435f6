"""The processor's cores that this process may use."""

from __future__ import annotations

import os


def own_cores() -> list[int]:
    """The cores' numbers in order: those of the process's affinity (`taskset`, a batch system), or else all cores."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
