"""What a peer does about memory: it keeps what was freed, and leaves alone what stays."""

from __future__ import annotations

import ctypes
import gc
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""glibc's numbers for them (malloc.h)."""


def keep_heap() -> bool:
    """Have glibc keep what is freed for the next allocation; returns whether it does (elsewhere: False).

    It hands blocks of a megabyte or more back to the system, which has to clear every page again when the next
    minibatch or the next body needs them: in training small networks up to a third of the time.
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
    """Have the garbage collector look no more at what is there by now: libraries, settings, the task.

    It would find nothing to collect and, in a forked process, unshare every page it looks at.
    """
    gc.collect()
    gc.freeze()
