"""Non-blocking stderr while peers run: a paused terminal (Ctrl-S, `less`) never blocks a peer."""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from dpeer.cli.async_writer import AsyncWriter
from dpeer.peer.core.wire import printable
from dpeer.peer.logs import Entry

PATIENCE = 5.0
"""Seconds that a command waits at its end for a reader of what it has printed."""

_MOST = 1000

_STYLES = {"DEBUG": "dim", "WARNING": "yellow", "ERROR": "bold red"}


class Terminal(AbstractContextManager["Terminal"]):
    """Prints lines on a thread of its own, in order; of unread lines on offer a thousand are kept.

    Args:
        console: Where to; stderr if None.
        patience: Seconds to wait for a reader at the end.

    Attributes:
        console: For a drawing that renews itself, on a thread of its own.
    """

    def __init__(self, console: Console | None = None, patience: float = PATIENCE) -> None:
        self.console = console or Console(file=_unlocked(sys.stderr))
        self._writer = AsyncWriter("terminal", self, _MOST)
        self._patience = patience
        self._streams = sys.stdout, sys.stderr

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._check(self._writer.close(self._patience))

    def say(self, text: str) -> None:
        """Print one of the few lines that must not be lost; control characters of the text are replaced."""
        self._writer.run(partial(self.write, Text(one_line(text))))

    def offer(self, text: str) -> None:
        """Print one of many lines, unless too many wait already to be read."""
        self._writer.put(Text(one_line(text)))

    def log(self, entry: Entry) -> bool:
        """Print what a peer has logged: a `Sink`."""
        level = entry["level"].upper()
        line = Text(f"{datetime.fromtimestamp(entry['time']):%H:%M:%S} rank {entry['rank']} ")
        line.append(level, _STYLES.get(level))
        line.append(f": {one_line(entry['message'])}")
        return self._writer.put(line)

    def run(self, job: Callable[[], None]) -> None:
        """Begin or end a drawing, after the lines so far."""
        self._writer.run(job)

    def flush(self) -> bool:
        """Wait until all is printed, at most `patience` seconds; return whether it is."""
        return self._check(self._writer.flush(self._patience))

    def _check(self, printed: bool) -> bool:
        if not printed:  # a drawing that has put itself in their place will not end by itself
            sys.stdout, sys.stderr = self._streams
        return printed

    def write(self, line: Text) -> None:
        """Print a line now, on the writer's thread."""
        self.console.print(line, soft_wrap=True)

    def skipped(self, lines: int) -> None:
        """Print, on the writer's thread, how many lines are missing here."""
        named = "1 line was" if lines == 1 else f"{lines} lines were"
        self.write(Text(f"({named} not printed here, because stderr was not read; the run's files have all lines)"))


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
