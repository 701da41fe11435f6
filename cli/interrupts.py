"""Ctrl-C where nothing has begun that would have to be ended in good order."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Within it Ctrl-C ends the process at once, unless an event loop handles it.

    As an exception it would come in the middle of an import, where torch ends the process with messages of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"\ndpeer: interrupted\n")
    os._exit(130)
