"""The writer of metrics.jsonl: a line for each round, in step with the checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
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
        self._damaged, self._torn = 0, False
        self.known = 0, 0
        rounds = set[int]()
        for line, whole in _lines(path):
            entry = parse(line)
            record = None if entry is None else RoundRecord.of(entry)
            number = -1 if record is None else record.round
            if record is not None:
                known, sent = number + (not record.adopted), number + 1 if record.active else 0
                self.known = max(self.known[0], known), max(self.known[1], sent)
            if not next_round:
                continue
            if record is None or number < 0:
                self._damaged, self._torn = self._damaged + whole, not whole
            elif number < next_round:
                self._kept.append(line)
                rounds.add(number)
        self._missing = [number for number in range(next_round) if number not in rounds]

    @property
    def damage(self) -> str | None:
        """Damage of the file when it was read, in words; None if there was none."""
        parts = []
        if self._torn:
            parts.append("its last line has no end (the process was killed while it wrote it) and is cut")
        if self._damaged:
            count = "1 damaged line is" if self._damaged == 1 else f"{self._damaged} damaged lines are"
            parts.append(f"{count} left out")
        if self._missing and not self._path.exists():
            parts.append("it is not there any more")
        elif self._missing:
            parts.append(f"it lacks {_named(self._missing)}")
        return "; ".join(parts) or None

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
        entries = (parse(line) for line, _ in _lines(self._path))
        found = {RoundRecord.of(entry).round for entry in entries if entry is not None}
        return len({*range(completed)} - found)


def _lines(path: Path) -> list[tuple[str, bool]]:
    """The lines of a file that are not empty, and whether each has an end; none without the file."""
    if not path.exists():
        return []
    *whole, rest = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return [(line, True) for line in whole if line.strip()] + ([(rest, False)] if rest.strip() else [])


def _named(rounds: Collection[int]) -> str:
    """Rounds in words, counted from 1."""
    first = [str(number + 1) for number in sorted(rounds)]
    if len(first) == 1:
        return f"the line of round {first[0]}"
    return f"the lines of {len(first)} rounds ({', '.join(first[:5])}{', ...' if len(first) > 5 else ''})"
