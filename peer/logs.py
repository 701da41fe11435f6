"""Structured log of a peer: events with fields, written to log.jsonl and other sinks without blocking the peer.

    log.warning("neighbor-dead", message="rank 3 is silent for 15 s: rounds go on without it", neighbor=3)

The event is a short word for programs that never changes, the message a whole sentence for people; a warning names
the remedy. docs/files.md lists the events.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from structlog import BoundLoggerBase
from structlog.processors import ExceptionRenderer, TimeStamper, add_log_level
from structlog.typing import EventDict, Processor

from dpeer.peer.async_writer import AsyncWriter
from dpeer.results.files import OLDER_LOG, finite

Entry = Mapping[str, Any]
"""A line of the log: time (Unix seconds), level, event, message, rank, further fields, an error's traceback."""

Sink = Callable[[Entry], bool]
"""Takes entries, at once and on any thread; returns False for those that it has to drop."""

_LEVELS = ("debug", "info", "warning", "error")

_FIRST = ("time", "level", "event", "message", "rank")

FILES = AsyncWriter("log files")
"""One thread writes the files of all the peers of this process."""


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


class _Lines:
    """Hands each entry of a peer's logger to the file and to the sinks."""

    def __init__(self, file: _File | None, level: str, sinks: tuple[Sink, ...]) -> None:
        self.level, self.sinks = _LEVELS.index(level), sinks
        self._file = file
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """Lines that some sink has not taken, or the disk."""
        return self._dropped + (self._file.failed if self._file else 0)

    def take(self, entry: Entry) -> None:
        """Hand an entry on."""
        if self._file and not FILES.put(self._file, _line(entry)):
            self._dropped += 1
        self._dropped += sum(not sink(entry) for sink in self.sinks)

    def close(self) -> None:
        """Write the lines on their way to the file, and close it."""
        if self._file:
            FILES.close()
            self._file.close()


class _File:
    """log.jsonl, written on the writer's thread. A full disk is reported by the training, not by the log.

    When others have moved the file or removed it (logrotate), a line opens it anew.
    """

    def __init__(self, path: Path, rank: int, most: int | None) -> None:
        self.failed = 0
        self._path, self._most = path, most
        self._file = path.open("ab", buffering=0)
        self._rank = rank
        self._missing = 0  # lines of `failed` that the file does not yet report
        self._torn = False

    def write(self, line: str) -> None:
        """Append a line; before it, where lines could not be written, one with their count."""
        if self._missing and self._append(self._gap(self._missing, "the disk was full, or could not be written to")):
            self._missing = 0
        if self._missing or not self._append(line):
            self.failed += 1
            self._missing += 1

    def skipped(self, lines: int) -> None:
        """Report lines that were dropped because the disk was too slow for them."""
        self.write(self._gap(lines, "the disk was too slow for them: log less (--log-level)"))

    def close(self) -> None:
        """Close the file, with a last line on missing ones."""
        if self._missing:
            self._append(self._gap(self._missing, "the disk was full, or could not be written to"))
        self._file.close()

    def _append(self, line: str) -> bool:
        whole = f"{line}\n".encode()
        self._find(len(whole))
        left = memoryview(b"\n" + whole if self._torn else whole)
        try:
            while left:
                left = left[self._file.write(left) :]
                self._torn = 0 < len(left) < len(whole)
        except OSError:
            return False
        return True

    def _find(self, coming: int) -> None:
        """Open the file of that name, which may be another one by now, or begin it where it would become too large."""
        with contextlib.suppress(OSError):  # no folder, or no right to it: the file that is open takes the lines
            named = self._path.stat() if self._path.exists() else None
            if named is not None and os.path.samestat(named, os.fstat(self._file.fileno())):
                if self._most is None or not 0 < named.st_size > self._most - coming:
                    return
                self._path.replace(self._path.with_name(OLDER_LOG))
            newer = self._path.open("ab", buffering=0)
            self._file.close()
            self._file, self._torn = newer, False

    def _gap(self, lines: int, why: str) -> str:
        named = "1 line is" if lines == 1 else f"{lines} lines are"
        message = f"{named} missing here: {why}"
        entry = {"time": round(time.time(), 3), "level": "warning", "event": "log-dropped", "message": message}
        return _line({**entry, "rank": self._rank, "lines": lines})


def peer_logger(rank: int, path: Path | None, level: str, *sinks: Sink, most: int | None = None) -> PeerLog:
    """A logger of this peer's own (many peers can share a process); end it with its `close`.

    Args:
        rank: The peer.
        path: Its log.jsonl, which is appended to; None for none.
        level: debug, info, warning or error: lower levels are not logged.
        sinks: Where entries go besides.
        most: Bytes of log.jsonl from which on it is renamed to log.jsonl.1 and begun anew; None for no limit.
    """
    lines = _Lines(None if path is None else _File(path, rank, most), level, sinks)
    processors: list[Processor] = [add_log_level, TimeStamper(fmt=None, key="time"), ExceptionRenderer(), _in_order]
    return PeerLog(lines, processors, {"rank": rank})


def _in_order(logger: Any, method: str, event: EventDict) -> EventDict:
    """Sort a line's fields: those that every line has first, a traceback last."""
    event["time"] = round(event["time"], 3)
    traceback = {"traceback": event.pop("exception")} if "exception" in event else {}
    return {key: event[key] for key in _FIRST} | {key: event[key] for key in event if key not in _FIRST} | traceback


def _line(entry: Entry) -> str:
    return json.dumps(finite(entry), default=str)
