"""An event loop in a background thread, for callers that have a running one, as notebooks have."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dpeer.federation.run import Runner

SLICE = 0.5
"""Seconds after which Ctrl-C is answered at the latest."""


class BackgroundLoop:
    """Runs on a thread with an event loop of its own, while this thread waits and listens for Ctrl-C.

    Attributes:
        interrupted: Whether Ctrl-C came.
    """

    def __init__(self) -> None:
        self.interrupted = False

    def __call__(self, runner: Runner) -> None:
        """Run to the end, or until all peers have stopped after Ctrl-C."""
        failures: list[BaseException] = []
        loop, ended = (runner.loop_factory or asyncio.new_event_loop)(), threading.Event()

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: loop) as runs:
                    runs.run(runner.run())
            except BaseException as error:
                failures.append(error)
            finally:
                ended.set()

        def stop() -> None:
            self.interrupted = True
            with suppress(RuntimeError):  # the run has just ended
                loop.call_soon_threadsafe(runner.stop)

        with _answering(stop):
            _wait(ended, stop, threading.Thread(target=work, name="dpeer.run"))
        if failures:
            raise failures[0]


@contextmanager
def _answering(stop: Callable[[], None]) -> Iterator[None]:
    """Within it Ctrl-C calls `stop` and raises nothing: a second exception would end what answers the first.

    Nothing changes where another handler answers Ctrl-C already, or on another thread than the main one.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: stop())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _wait(ended: threading.Event, stop: Callable[[], None], thread: threading.Thread) -> None:
    """Start the thread and wait for the end of its run; a `KeyboardInterrupt` that comes all the same calls `stop`."""
    start: Callable[[], None] | None = thread.start
    while not ended.is_set():
        try:
            if start is not None:
                with _held_back():
                    start()
                    start = None
            # Not Thread.join: interrupted, it takes a thread that runs for one that has ended. In slices: the signal
            # may come to another thread, and then only this one's next instruction runs the handler.
            ended.wait(SLICE)
        except KeyboardInterrupt:
            stop()


@contextmanager
def _held_back() -> Iterator[None]:
    """Ctrl-C is answered at the end: an exception within `Thread.start` leaves open whether a thread has started."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is None:  # None: a handler that Python cannot put back
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        signal.raise_signal(signal.SIGINT)
