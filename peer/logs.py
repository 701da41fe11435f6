"""A peer's log: log.jsonl in its rank's folder, and any other handlers."""

from __future__ import annotations

import json
import logging
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


def peer_logger(rank: int, path: Path | None, level: str, *handlers: logging.Handler) -> logging.Logger:
    """A logger of this peer's own (many peers can share a process); close it with `close_logger`."""
    logger = logging.Logger(f"dpeer.rank-{rank}", level.upper())
    if path:
        file = logging.FileHandler(path)
        file.setFormatter(JsonFormatter())
        logger.addHandler(file)
    for handler in handlers:
        logger.addHandler(handler)
    return logger


def close_logger(logger: logging.Logger) -> None:
    """Close the files behind a logger."""
    for handler in logger.handlers:
        handler.close()
