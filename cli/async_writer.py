"""Asynchronous writer: a thread that writes lines, so that no caller waits for a reader."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol


class Target(Protocol):
    """Where a writer writes lines, on its thread."""

    def write(self, line: Any) -> None:
        """Write a line; may take as long as it takes."""

    def skipped(self, lines: int) -> None:
        """Report that so many lines are missing here."""


class AsyncWriter:
    """A bounded queue of lines, and the thread that writes them.

    A full queue takes no lines until all that wait are written, so that missing lines are consecutive. The thread
    is there from the first line on and until `close`; a line after that starts another one. Where the system gives no
    thread, lines wait, and `flush` writes them on the thread that calls it.

    Args:
        name: The thread's.
        target: Where to.
        most: How many lines may wait.
    """

    def __init__(self, name: str, target: Target, most: int) -> None:
        self._name, self._target, self._most = name, target, most
        self._items: deque[Callable[[], None]] = deque()
        self._dropped, self._ending = 0, False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    def put(self, line: Any) -> bool:
        """Hand over a line; returns at once, and False if the queue is full and the line is dropped."""
        with self._changed:
            if len(self._items) >= self._most or (self._dropped and self._items):
                self._dropped += 1
                return False
            self._add(partial(self._target.write, line))
            return True

    def run(self, job: Callable[[], None]) -> None:
        """Have a job done after the lines so far; it is never dropped."""
        with self._changed:
            self._add(job)

    def flush(self, patience: float | None = None) -> bool:
        """Wait until the lines so far are written, at most `patience` seconds if given.

        Returns:
            Whether it is.
        """
        done = threading.Event()
        with self._changed:
            if self._thread is None and not self._items and not self._dropped:
                return True
            self._add(done.set)
            alone = self._thread is None
        if alone:
            self._empty()
        return done.wait(patience)

    def close(self, patience: float | None = None) -> bool:
        """Do as `flush` does, and end the thread once nothing waits; it never keeps the process from ending."""
        with self._changed:
            self._ending = self._thread is not None
        return self.flush(patience)

    def _add(self, job: Callable[[], None]) -> None:
        if self._dropped:
            self._items.append(partial(self._target.skipped, self._dropped))
            self._dropped = 0
        self._items.append(job)
        if self._thread is None:
            thread = threading.Thread(target=self._empty, name=self._name, daemon=True)
            with contextlib.suppress(RuntimeError):  # "can't start new thread": the next line tries again
                thread.start()
                self._thread = thread
        self._changed.notify()

    def _empty(self) -> None:
        while (job := self._next()) is not None:
            with contextlib.suppress(Exception):  # a line that cannot be written must not keep the next from trying
                job()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._items:
                if self._ending or self._thread is None:
                    self._thread, self._ending = None, False
                    return None
                self._changed.wait()
            return self._items.popleft()
