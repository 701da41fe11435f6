"""Ctrl-C before a run has begun: the process ends at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dpeer.federation.stop_signals import Requests, stop_signals


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Within it Ctrl-C ends the process at once, unless an event loop handles it.

    Raised as an exception in the middle of an import, it would make torch print messages of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or other stop signal within it sets; the second ends the process at once."""
    asked, requests = threading.Event(), Requests()

    def stop(number: int, frame: FrameType | None) -> None:
        if requests.insists(number):
            _end(number, frame)
        asked.set()

    before = {number: signal.signal(number, stop) for number in stop_signals()}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"\ndpeer: interrupted\n")
    os._exit(130)
