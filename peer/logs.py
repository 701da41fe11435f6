"""Structured log of a peer: events with fields, written to log.jsonl and other sinks without blocking the peer.

    log.warning("neighbor-dead", message="rank 3 is silent for 15 s: rounds go on without it", neighbor=3)

The event is a short word for programs that never changes, the message a whole sentence for people; a warning names
the remedy. docs/files.md lists the events.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping
from logging import LogRecord, makeLogRecord
from logging.handlers import QueueListener, WatchedFileHandler
from pathlib import Path
from queue import Full, Queue
from typing import Any

from structlog import BoundLoggerBase
from structlog.processors import ExceptionRenderer, TimeStamper, add_log_level
from structlog.typing import EventDict, Processor

from dpeer.results.files import finite

Entry = Mapping[str, Any]
"""A line of the log: time (Unix seconds), level, event, message, rank, further fields, an error's traceback."""

Sink = Callable[[Entry], bool]
"""Takes entries, at once and on any thread; returns False for those that it has to drop."""

_LEVELS = ("debug", "info", "warning", "error")

_FIRST = ("time", "level", "event", "message", "rank")

MOST = 10_000
"""Lines that wait for the disk at most, of all the peers of this process: a few megabytes."""


class PeerLog(BoundLoggerBase):
    """A structlog logger of one peer's own, with its rank bound; nothing of it is known to other loggers."""

    def debug(self, event: str, *, message: str, **fields: Any) -> None:
        """Log a detail that helps to find a mistake."""
        self._log("debug", event, message, fields)

    def info(self, event: str, *, message: str, **fields: Any) -> None:
        """Log how it goes."""
        self._log("info", event, message, fields)

    def warning(self, event: str, *, message: str, **fields: Any) -> None:
        """Log an event that may need the user: the peer, the reason, and the remedy."""
        self._log("warning", event, message, fields)

    def error(self, event: str, *, message: str, **fields: Any) -> None:
        """Log why the peer ends; `exc_info=True` adds the traceback."""
        self._log("error", event, message, fields)

    @property
    def dropped(self) -> int:
        """Lines that were not written so far: a queue was full, or a disk."""
        lines: _Lines = self._logger
        return lines.dropped

    def to_file_only(self) -> None:
        """From now on log to log.jsonl alone: the caller prints the rest."""
        lines: _Lines = self._logger
        lines.sinks = ()

    def close(self) -> None:
        """Write the lines on their way to the file, and close it."""
        lines: _Lines = self._logger
        lines.close()

    def _log(self, level: str, event: str, message: str, fields: dict[str, Any]) -> None:
        lines: _Lines = self._logger
        if _LEVELS.index(level) >= lines.level:
            _, entry = self._process_event(level, event, {"message": message, **fields})
            lines.take(entry)


class _File(WatchedFileHandler):
    """A peer's log.jsonl. A full disk is reported by the training, not by the log.

    Attributes:
        failed: Lines that could not be written.
    """

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
    """One thread that writes the files of all the peers of this process.

    Attributes:
        waiting: The lines that wait for it.
    """

    def __init__(self, most: int = MOST) -> None:
        self.waiting: Queue[LogRecord] = Queue(most)
        super().__init__(self.waiting)

    def start(self) -> None:
        """Start the thread where it does not run, as in a process that was forked from another one."""
        if self._thread is None or not self._thread.is_alive():
            super().start()

    def put(self, file: _File, line: str) -> bool:
        """Hand over a line; returns at once, and False if too many wait already."""
        try:
            self.waiting.put_nowait(makeLogRecord({"msg": line, "file": file}))
        except Full:
            return False
        return True

    def handle(self, record: LogRecord) -> None:
        """Write a line, on the thread."""
        record.__dict__["file"].handle(record)


FILES = _Files()


class _Lines:
    """Hands each entry of a peer's logger to the file and to the sinks."""

    def __init__(self, rank: int, file: _File | None, level: str, sinks: tuple[Sink, ...]) -> None:
        self.level, self.sinks = _LEVELS.index(level), sinks
        self._rank, self._file = rank, file
        self._dropped = self._refused = self._reported = 0

    @property
    def dropped(self) -> int:
        """Lines that some sink has not taken, or the disk."""
        return self._dropped + self._missing + self._reported

    @property
    def _missing(self) -> int:
        """Lines that are not in the file, and of which it does not tell."""
        return self._refused + (self._file.failed if self._file else 0) - self._reported

    def take(self, entry: Entry) -> None:
        """Hand an entry on."""
        if self._file:
            # Where the disk is slow the file lacks many lines in a row, not every other one.
            waits = self._missing and FILES.waiting.qsize() > FILES.waiting.maxsize // 2
            if not waits:
                self._report()
            self._refused += bool(waits or not FILES.put(self._file, _line(entry)))
        self._dropped += sum(not sink(entry) for sink in self.sinks)

    def close(self) -> None:
        """Write the lines on their way to the file, and close it."""
        if self._file:
            FILES.waiting.join()
            self._report()
            FILES.waiting.join()
            with contextlib.suppress(OSError):  # a full disk
                self._file.close()

    def _report(self) -> None:
        """Write into the file how many lines are missing in this place, if some are."""
        if self._file and (missing := self._missing):
            named = "1 line is" if missing == 1 else f"{missing} lines are"
            message = f"{named} missing here: the disk was full, or too slow for them: log less (--log-level)"
            entry = {"time": round(time.time(), 3), "level": "warning", "event": "log-dropped", "message": message}
            FILES.put(self._file, _line({**entry, "rank": self._rank, "lines": missing}))
            self._reported += missing


def peer_logger(rank: int, path: Path | None, level: str, *sinks: Sink) -> PeerLog:
    """A logger of this peer's own (many peers can share a process); end it with its `close`.

    Args:
        rank: The peer.
        path: Its log.jsonl, which is appended to; None for none.
        level: debug, info, warning or error: lower levels are not logged.
        sinks: Where entries go besides.
    """
    file = None if path is None else _File(path, encoding="utf-8")
    if file:
        FILES.start()
    lines = _Lines(rank, file, level, sinks)
    processors: list[Processor] = [add_log_level, TimeStamper(fmt=None, key="time"), ExceptionRenderer(), _in_order]
    return PeerLog(lines, processors, {"rank": rank})


def _in_order(logger: Any, method: str, event: EventDict) -> EventDict:
    """Sort a line's fields: those that every line has first, a traceback last."""
    event["time"] = round(event["time"], 3)
    traceback = {"traceback": event.pop("exception")} if "exception" in event else {}
    return {key: event[key] for key in _FIRST} | {key: event[key] for key in event if key not in _FIRST} | traceback


def _line(entry: Entry) -> str:
    return json.dumps(finite(entry), default=str)
