"""The signals that stop a run, and what forked processes do with them.

SIGTERM ends the processes that a task forks (a pool) and is no request to stop the peer. The event loop hears of
signals by a pipe that a forked process inherits: without a reset there, a pool that ends its workers would stop the
run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

WARNINGS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
"""A batch system's warning before a limit of time, as Slurm and PBS send it; it may come again each second."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, *WARNINGS)
"""What asks a run to stop: Ctrl-C, a service manager, a terminal or SSH session that is gone, and a warning.

A second one ends the process at once, unless it is a warning.
"""

ECHO = 0.5
"""Seconds within which a signal that comes again is the same request: `timeout` sends it to its group, too."""


class Requests:
    """The stop signals that have come."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def insists(self, number: int) -> bool:
        """Note a signal; whether it ends the process at once: the second one, but no warning and no echo."""
        now, before = time.monotonic(), self._last
        if before is not None and before[0] == number and now < before[1] + ECHO:
            return False
        self._last = number, now
        return before is not None and number not in WARNINGS


def stop_signals() -> list[signal.Signals]:
    """Those of `STOP_SIGNALS` that are answered.

    SIGHUP is not where it is ignored, as under nohup. A warning is not where the program has a use of its own for it.
    """
    answering()
    found = []
    for one in STOP_SIGNALS:
        handler = signal.getsignal(one)
        if handler == signal.SIG_DFL or (one not in WARNINGS and (one != signal.SIGHUP or handler != signal.SIG_IGN)):
            found.append(one)
    return found


def answer_on_loop(stop: Callable[[int], object], insist: Callable[[int], object]) -> None:
    """From now on the running event loop calls `stop` with each stop signal, before that `insist` with the second."""
    requests = Requests()

    def heard(number: int) -> None:
        if requests.insists(number):
            insist(number)
        stop(number)

    for number in stop_signals():
        asyncio.get_running_loop().add_signal_handler(number, heard, number)


@contextmanager
def asked_to_stop(end: Callable[[], None] = lambda: None) -> Iterator[threading.Event]:
    """An event that the first stop signal within it sets; a second one calls `end`, and ends the process."""
    asked, requests = threading.Event(), Requests()

    def stop(number: int, frame: FrameType | None) -> None:
        if requests.insists(number):
            end()
            end_now(number, frame)
        asked.set()

    before = {number: signal.signal(number, stop) for number in stop_signals()}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_now(number: int, frame: FrameType | None) -> None:
    """End the process: a signal's handler."""
    os.write(2, b"\ndpeer: interrupted\n")
    os._exit(130)


_answering = False
"""Whether SIGTERM is answered otherwise in this process than the system does."""

_forking = threading.local()
"""By thread: its blocked signals before it forked."""


def answering() -> None:
    """From now on processes that are forked have the system's answer to SIGTERM."""
    global _answering
    _answering = True


def _before() -> None:
    # One that comes before the new process is ready waits there.
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if _answering else None


def _after() -> None:
    if _forking.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _in_child() -> None:
    if _forking.mask is not None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _after()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
