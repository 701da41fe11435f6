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
        path: The file, or None to keep nothing.
        next_round: Lines from this round on do not count: they belong to rounds that are run again.

    Attributes:
        known: When it was read, the rounds up to the last line but for adoptions, and up to the last line of a body
            that was sent; whether they count or not.
    """

    def __init__(self, path: Path | None, next_round: int = 0) -> None:
        self._path = path
        self._kept: list[str] = []
        self._seen: tuple[int, ...] | None = None
        self._damaged, self._torn = 0, False
        self.known = 0, 0
        rounds = set[int]()
        for line, whole in _lines(path) if path else ():
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
        if self._missing and self._path and not self._path.exists():
            parts.append("it is not there any more")
        elif self._missing:
            parts.append(f"it lacks {_named(self._missing)}")
        return "; ".join(parts) or None

    def rewrite(self) -> None:
        """Drop the lines that do not count from the file, which is made if it is missing."""
        if self._path:
            replace(self._path, "".join(f"{line}\n" for line in self._kept))
            self._seen = _mark(self._path.stat())
        self._kept = []

    def append(self, entry: dict[str, Any]) -> str | None:
        """Add a round's line; after a power loss it may be missing until `flush` was called.

        Args:
            entry: The line.

        Returns:
            What another program did to the file since the last line ("deleted", "cut short", ...); else None.
        """
        if self._path is None:
            return None
        line = json.dumps(entry) + "\n"
        changed = self._changed()
        if changed is not None and _has_no_end(self._path):
            line = "\n" + line
        with self._path.open("a") as file:
            file.write(line)
            file.flush()
            self._seen = _mark(os.fstat(file.fileno()))
        return changed

    def flush(self) -> None:
        """Flush the lines to disk: the checkpoint that follows must not be ahead of them."""
        if self._path is None:
            return
        try:
            flush(self._path)
        except FileNotFoundError:
            if not self._path.parent.exists():
                raise
            # Another program has just deleted it: the next `append` reports it.

    def missing(self, completed: int) -> int:
        """How many of the completed rounds have no line in the file."""
        if self._path is None:
            return 0
        entries = (parse(line) for line, _ in _lines(self._path))
        found = {RoundRecord.of(entry).round for entry in entries if entry is not None}
        return len({*range(completed)} - found)

    def _changed(self) -> str | None:
        """Changes by another program since the last write; None without any."""
        if self._path is None or self._seen is None:
            return None
        try:
            found = _mark(self._path.stat())
        except FileNotFoundError:
            return "deleted"
        if found[:2] != self._seen[:2]:
            return "replaced by another file"
        if found[2] != self._seen[2]:
            return "cut short" if found[2] < self._seen[2] else "written to by another program"
        return None


def _mark(found: os.stat_result) -> tuple[int, ...]:
    """The identity of a file as it was written last: device, inode, length."""
    return found.st_dev, found.st_ino, found.st_size


def _lines(path: Path) -> list[tuple[str, bool]]:
    """The lines of a file that are not empty, and whether each has an end; none without the file."""
    if not path.exists():
        return []
    *whole, rest = path.read_text(encoding="utf-8", errors="replace").split("\n")
    return [(line, True) for line in whole if line.strip()] + ([(rest, False)] if rest.strip() else [])


def _has_no_end(path: Path) -> bool:
    """Whether a file's last line has no end."""
    return any(not whole for _, whole in _lines(path))


def _named(rounds: Collection[int]) -> str:
    """Rounds in words, counted from 1."""
    first = [str(number + 1) for number in sorted(rounds)]
    if len(first) == 1:
        return f"the line of round {first[0]}"
    return f"the lines of {len(first)} rounds ({', '.join(first[:5])}{', ...' if len(first) > 5 else ''})"
