"""Memory tuning of a peer's process: glibc keeps freed memory, the garbage collector skips long-lived objects."""

from __future__ import annotations

import ctypes
import gc
import sys

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
