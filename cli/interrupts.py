"""Ctrl-C before a run has begun: the process ends at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dpeer.federation.stop_signals import end_now


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Within it Ctrl-C ends the process at once, unless an event loop handles it.

    Raised as an exception in the middle of an import, it would make torch print messages of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, end_now)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
