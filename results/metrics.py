"""metrics.jsonl: a line for each round, written by the peer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpeer.results.files import flush, lines_of, parse, replace
from dpeer.results.lines import Line


class MetricsFile:
    """metrics.jsonl: one line a round, kept in step with the checkpoint.

    Args:
        path: The file, or None to keep nothing.
        next_round: Lines from this round on do not count: they belong to rounds that are run again.

    Attributes:
        mixed: In how many rounds a neighbor's body was mixed.
    """

    def __init__(self, path: Path | None, next_round: int) -> None:
        self._path = path
        self.last: dict[str, Any] | None = None
        self.bytes_sent = 0
        self.bytes_received = 0
        self.mixed = 0
        self._kept: list[str] = []
        for line in lines_of(path) if path and next_round else ():
            entry = parse(line)  # None where the process was killed in the middle of the line
            if entry is not None and Line.of(entry).round in range(next_round):
                self._kept.append(line)
                self._count(entry)

    def rewrite(self) -> None:
        """Drop the lines that do not count from the file, which is made if there is none."""
        if self._path:
            replace(self._path, "".join(f"{line}\n" for line in self._kept))
        self._kept = []

    def append(self, entry: dict[str, Any]) -> None:
        """Add a round's line; after a power loss it may be missing until `flush` was called."""
        self._count(entry)
        if self._path:
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def flush(self) -> None:
        """Flush the lines to disk: the checkpoint that follows must not be ahead of them."""
        if self._path:
            flush(self._path)

    def entry(self, number: int) -> dict[str, Any] | None:
        """The line of a round, from the file."""
        entries = (parse(line) for line in (lines_of(self._path) if self._path else ()))
        return next((entry for entry in entries if entry is not None and Line.of(entry).round == number), None)

    def _count(self, entry: dict[str, Any]) -> None:
        self.last = entry
        line = Line.of(entry)
        self.bytes_sent += line.bytes_sent or 0
        self.bytes_received += line.bytes_received or 0
        self.mixed += bool(entry.get("heard"))
