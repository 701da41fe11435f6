"""The writer of metrics.jsonl: a line for each round, in step with the checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dpeer.results.files import flush, parse, replace
from dpeer.results.records import RoundRecord


class MetricsFile:
    """metrics.jsonl: one line a round, kept in step with the checkpoint.

    Args:
        path: The file.
        next_round: Lines from this round on do not count: they belong to rounds that are run again.

    Attributes:
        known: When it was read, the rounds up to the last line but for adoptions, and up to the last line of a body
            that was sent; whether they count or not.
    """

    def __init__(self, path: Path, next_round: int = 0) -> None:
        self._path = path
        self._kept: list[str] = []
        self.known = 0, 0
        for line in _lines(path):
            record = RoundRecord.of(parse(line) or {})
            number = record.round
            known, sent = number + (not record.adopted), number + 1 if record.active else 0
            self.known = max(self.known[0], known), max(self.known[1], sent)
            if 0 <= number < next_round:
                self._kept.append(line)

    def rewrite(self) -> None:
        """Drop the lines that do not count from the file, which is made if it is missing."""
        replace(self._path, "".join(f"{line}\n" for line in self._kept))
        self._kept = []

    def append(self, entry: dict[str, Any]) -> None:
        """Add a round's line, also after one that has no end; after a power loss it may be missing until `flush`."""
        with self._path.open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
            if file.read() not in (b"", b"\n"):
                file.write(b"\n")
            file.write(json.dumps(entry).encode() + b"\n")

    def flush(self) -> None:
        """Flush the lines to disk: the checkpoint that follows must not be ahead of them."""
        try:
            flush(self._path)
        except FileNotFoundError:
            if not self._path.parent.exists():
                raise
            # Another program has just deleted it: `missing` counts its lines.

    def missing(self, completed: int) -> int:
        """How many of the completed rounds have no line in the file."""
        found = {RoundRecord.of(parse(line) or {}).round for line in _lines(self._path)}
        return len({*range(completed)} - found)


def _lines(path: Path) -> list[str]:
    """The lines of a file; none without it."""
    return path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []
