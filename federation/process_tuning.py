"""A peer's process: torch threads and advice on them, memory that glibc keeps, objects that are never collected."""

from __future__ import annotations

import ctypes
import gc
import sys

from dpeer.cores import own_cores
from dpeer.federation.addresses import all_on_this_host
from dpeer.federation.run_settings import NetworkPart
from dpeer.results.units import duration
from dpeer.training.step_pace import RoundPace

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""glibc's numbers of these settings (malloc.h)."""


def keep_heap() -> bool:
    """Have glibc keep freed memory for the next allocation; returns whether it does (False with another C library).

    Else it gives blocks of a megabyte or more back to the system, which has to clear every page again when the next
    minibatch or the next body needs memory: when small networks are trained, that is up to a third of the time.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    settings = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: (1 << 31) - 1, _TOP_PAD: 64 << 20}
    accepted = [mallopt(name, value) == 1 for name, value in settings.items()]
    return all(accepted)


def freeze_heap() -> None:
    """Exclude all objects that exist by now (libraries, settings, the task) from garbage collection.

    A collection would find none of them to free and, in a forked process, make a private copy of every page it visits.
    """
    gc.collect()
    gc.freeze()


SLOW = 10.0
"""Times as long as in a quiet moment that a round's steps take before advice is given."""

LOST = 1.0
"""Seconds that a round must lose by that: a single pause of the system is nothing to advise about."""


def share_of_cores(network: NetworkPart, size: int) -> int:
    """The torch threads of a model whose steps are long: all cores, or their share if all peers are on this host."""
    cores = len(own_cores())
    return max(1, cores // size) if all_on_this_host(network, size) else cores


class SlowSteps:
    """Looks at each round's steps; speaks when they have become slow, and again only after a round of quick ones."""

    def __init__(self) -> None:
        self._slow = False

    def look(self, pace: RoundPace | None) -> str | None:
        """A line for the user; None where the steps are as they were, or not slow."""
        if pace is None:
            return None
        before = self._slow
        self._slow = pace.seconds >= max(SLOW * pace.quiet_seconds, pace.quiet_seconds + LOST)
        if before or not self._slow:
            return None
        if pace.threads > 1:
            advice = f"try --threads 1 (now {pace.threads}), or fewer programs beside dpeer"
        else:
            advice = "run fewer programs beside dpeer, or give it a core of its own (taskset)"
        return (
            f"round {pace.number}: {pace.steps} steps took {duration(pace.seconds)}, and take "
            f"{duration(pace.quiet_seconds)} in a quiet moment: other programs use this host's cores; {advice}"
        )
