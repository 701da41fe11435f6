"""Structured log of a peer: events with fields, written to log.jsonl and other sinks without blocking the peer.

    log.warning("neighbor-dead", message="rank 3 is silent for 15 s: rounds go on without it", neighbor=3)

The event is a short word for programs that never changes, the message a whole sentence for people; a warning names
the remedy. docs/files.md lists the events.
"""

from __future__ import annotations

import contextlib
import json
import time
import traceback
from collections.abc import Callable, Mapping
from logging import LogRecord, makeLogRecord
from logging.handlers import QueueListener, WatchedFileHandler
from pathlib import Path
from queue import Full, Queue
from typing import Any

from dpeer.results.files import finite

Entry = Mapping[str, Any]
"""A line of the log: time (Unix seconds), level, event, message, rank, further fields, an error's traceback."""

Sink = Callable[[Entry], bool]
"""Takes entries, at once and on any thread; returns False for those that it has to drop."""

_LEVELS = ("debug", "info", "warning", "error")

MOST = 10_000
"""Lines that wait for the disk at most, of all the peers of this process: a few megabytes."""


class _File(WatchedFileHandler):
    """A peer's log.jsonl. A full disk is reported by the training, not by the log."""

    failed = 0

    def emit(self, record: LogRecord) -> None:
        """Write a line; where another program has moved the file, into a new one."""
        try:
            super().emit(record)
        except OSError:  # the folder is gone, say
            self.handleError(record)

    def handleError(self, record: LogRecord) -> None:  # noqa: N802  # logging's name
        """Count a line that could not be written."""
        self.failed += 1


class _Files(QueueListener):
    """One thread that writes the files of all the peers of this process."""

    def __init__(self, most: int = MOST) -> None:
        self.waiting: Queue[LogRecord] = Queue(most)
        super().__init__(self.waiting)

    def start(self) -> None:
        """Start the thread where it does not run, as in a process that was forked from another one."""
        if self._thread is None or not self._thread.is_alive():
            super().start()

    def put(self, file: _File, entry: Entry) -> bool:
        """Hand over a line; returns at once, and False if too many wait already."""
        line = json.dumps(finite(entry), default=str)
        try:
            self.waiting.put_nowait(makeLogRecord({"msg": line, "file": file}))
        except Full:
            return False
        return True

    def handle(self, record: LogRecord) -> None:
        """Write a line, on the thread."""
        record.__dict__["file"].handle(record)


FILES = _Files()


class PeerLog:
    """A peer's own log (many peers can share a process); end it with its `close`.

    Args:
        path: Its log.jsonl, which is appended to; None for none.
        level: debug, info, warning or error: lower levels are not logged.
        sinks: Where entries go besides.
    """

    def __init__(self, rank: int, path: Path | None, level: str, *sinks: Sink) -> None:
        self._rank, self._level, self._sinks = rank, _LEVELS.index(level), sinks
        self._file = None if path is None else _File(path, encoding="utf-8")
        if self._file:
            FILES.start()
        self._dropped = 0

    def debug(self, event: str, *, message: str, **fields: Any) -> None:
        """Log a detail that helps to find a mistake."""
        self._log("debug", event, message, fields)

    def info(self, event: str, *, message: str, **fields: Any) -> None:
        """Log how it goes."""
        self._log("info", event, message, fields)

    def warning(self, event: str, *, message: str, **fields: Any) -> None:
        """Log an event that may need the user: the peer, the reason, and the remedy."""
        self._log("warning", event, message, fields)

    def error(self, event: str, *, message: str, exc_info: bool = False, **fields: Any) -> None:
        """Log why the peer ends, perhaps with the traceback of the present error."""
        self._log(
            "error", event, message, fields | ({"traceback": traceback.format_exc().rstrip()} if exc_info else {})
        )

    @property
    def dropped(self) -> int:
        """Lines that were not written so far: a queue was full, or a disk."""
        return self._dropped + (self._file.failed if self._file else 0)

    def to_file_only(self) -> None:
        """From now on log to log.jsonl alone: the caller prints the rest."""
        self._sinks = ()

    def close(self) -> None:
        """Write the lines on their way to the file, and close it."""
        if self._file:
            FILES.waiting.join()
            with contextlib.suppress(OSError):  # a full disk
                self._file.close()

    def _log(self, level: str, event: str, message: str, fields: Mapping[str, Any]) -> None:
        if _LEVELS.index(level) < self._level:
            return
        now = round(time.time(), 3)
        entry = {"time": now, "level": level, "event": event, "message": message, "rank": self._rank, **fields}
        if self._file:
            self._dropped += not FILES.put(self._file, entry)
        self._dropped += sum(not sink(entry) for sink in self._sinks)
