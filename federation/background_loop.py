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
            threading.Thread(target=work, name="dpeer.run").start()
            while True:
                try:
                    # In slices: the signal may come to another thread, and then only this one's next instruction runs
                    # the handler.
                    while not ended.wait(SLICE):
                        pass
                    break
                except KeyboardInterrupt:  # of a handler of the caller's own
                    stop()
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
