"""A peer's log: log.jsonl in its rank's folder, and any other handlers."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path


class JsonFormatter(logging.Formatter):
    """log.jsonl: one object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time (Unix seconds), level, message and, where there is one, the traceback."""
        entry = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


class _File(logging.FileHandler):
    """A log that does not fill the terminal with tracebacks when its disk is full: whoever trains says so."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Say nothing of a line that cannot be written."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


def peer_logger(rank: int, path: Path | None, level: str, *handlers: logging.Handler) -> logging.Logger:
    """A logger of this peer's own (many peers can share a process); close it with `close_logger`."""
    logger = logging.Logger(f"dpeer.rank-{rank}", level.upper())
    if path:
        file = _File(path)
        file.setFormatter(JsonFormatter())
        logger.addHandler(file)
    for handler in handlers:
        logger.addHandler(handler)
    return logger


def close_logger(logger: logging.Logger) -> None:
    """Close the files behind a logger."""
    for handler in logger.handlers:
        handler.close()
