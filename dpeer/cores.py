"""Which of the processor's cores this process may use."""

from __future__ import annotations

import os


def own_cores() -> list[int]:
    """Their numbers, in order: those of its affinity (`taskset`, a batch system); all, where there is no such thing."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
