"""Running a federation beside a thread that may have an event loop of its own, as a notebook's has."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from dpeer.federation.running import Runner


class Beside:
    """Runs on a thread with an event loop of its own, while this thread waits and listens for Ctrl-C.

    Attributes:
        interrupted: Whether Ctrl-C came.
    """

    def __init__(self) -> None:
        self.interrupted = False

    def __call__(self, runner: Runner) -> None:
        """Run to the end, or until all peers have stopped after Ctrl-C."""
        failures: list[BaseException] = []
        loop, ended = asyncio.new_event_loop(), threading.Event()

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=lambda: loop) as runs:
                    runs.run(runner.run())
            except BaseException as error:
                failures.append(error)
            finally:
                ended.set()

        threading.Thread(target=work, name="dpeer.run").start()
        while not ended.is_set():
            try:
                ended.wait()  # not Thread.join: interrupted, it takes a thread that runs for one that has ended
            except KeyboardInterrupt:
                self.interrupted = True
                with suppress(RuntimeError):  # the run has just ended
                    loop.call_soon_threadsafe(runner.stop)
        if failures:
            raise failures[0]
