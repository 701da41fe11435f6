"""Non-blocking stderr while peers run: a paused terminal (Ctrl-S, `less`) never blocks a peer."""

from __future__ import annotations

import io
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from queue import SimpleQueue
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from dpeer.federation.stop_signals import end_now
from dpeer.peer.core.wire import printable
from dpeer.peer.logs import Entry

PATIENCE = 5.0
"""Seconds that a command waits at its end for a reader of what it has printed."""

_MOST = 1000
"""Lines on offer are dropped while so many wait."""

_STYLES = {"DEBUG": "dim", "WARNING": "yellow", "ERROR": "bold red"}


class Terminal(AbstractContextManager["Terminal"]):
    """Prints lines on a thread of its own, in order, until its block ends; the thread keeps no process from ending.

    Args:
        patience: Seconds to wait for a reader at the end.
    """

    def __init__(self, console: Console | None = None, patience: float = PATIENCE) -> None:
        self.console = console or Console(file=_unlocked(sys.stderr))
        self._patience = patience
        self._streams = sys.stdout, sys.stderr
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="terminal", daemon=True).start()

    def __exit__(self, *ended: object) -> None:
        self.flush()
        self._jobs.put(None)

    def say(self, text: str) -> None:
        """Print one of the few lines that must not be lost; control characters of the text are replaced."""
        self.run(partial(self._print, Text(one_line(text))))

    def offer(self, text: str) -> None:
        """Print one of many lines, unless too many wait already to be read."""
        self._offer(Text(one_line(text)))

    def log(self, entry: Entry) -> bool:
        """Print what a peer has logged: a `Sink`."""
        level = entry["level"].upper()
        line = Text(f"{datetime.fromtimestamp(entry['time']):%H:%M:%S} rank {entry['rank']} ")
        line.append(level, _STYLES.get(level))
        line.append(f": {one_line(entry['message'])}")
        return self._offer(line)

    def run(self, job: Callable[[], None]) -> None:
        """Begin or end a drawing, after the lines so far."""
        self._jobs.put(job)

    def flush(self) -> bool:
        """Wait until all is printed, at most `patience` seconds; return whether it is."""
        printed = threading.Event()
        self._jobs.put(printed.set)
        if not printed.wait(self._patience):  # a drawing that has put itself in their place will not end by itself
            sys.stdout, sys.stderr = self._streams
        return printed.is_set()

    def _offer(self, line: Text) -> bool:
        """Print a line unless too many wait; returns whether it will be."""
        if self._jobs.qsize() >= _MOST:
            return False
        self._jobs.put(partial(self._print, line))
        return True

    def _print(self, line: Text) -> None:
        self.console.print(line, soft_wrap=True)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with suppress(Exception):  # a line that cannot be written must not keep the next from trying
                job()


def say(*lines: str) -> None:
    """Print lines on stderr; returns after `PATIENCE` even if stderr is not read, so that a command ends."""
    with Terminal() as terminal:
        for line in lines:
            terminal.say(line)


def one_line(text: str) -> str:
    """A text as one line without control characters, which a terminal would obey."""
    return printable(" ".join(text.split()))


def _unlocked(stream: TextIO) -> TextIO:
    """The same file without a lock: at its end Python waits for a thread that waits in `sys.stderr`, which has one."""
    try:
        raw: Any = _Whole(stream.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):
        return stream  # a notebook's, or a test's: no file of the system
    return io.TextIOWrapper(raw, stream.encoding, "backslashreplace", write_through=True)


class _Whole(io.FileIO):
    """A file whose `write` writes everything, as a buffered one's does, also where others made it non-blocking."""

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        while left:
            written = super().write(left)
            if written is None:
                select.select([], [self], [])
            else:
                left = left[written:]
        return len(data)


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
