"""The last rounds of a peer, read from its growing metrics.jsonl; each look reads what is new."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpeer.results.files import METRICS, parse
from dpeer.results.json_fields import number, table, whole, wholes

KEPT = 200
"""Rounds of a peer that are shown."""

_TAIL = 2**20
"""Bytes at the end of a long file in which the first look searches for these rounds."""

FIGURES = ("accuracy", "test_loss", "disagreement", "round_seconds", "missed")
_OF_DATA = ("accuracy", "test_loss")
"""Figures that stay in the rank's folder where privacy is on."""


class Rounds:
    """The last rounds in a rank's folder.

    Args:
        folder: The rank's.

    Attributes:
        private: Whether the data are protected: lines have the privacy loss.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / METRICS
        self._file, self._at = 0, 0
        self._found: dict[int, Mapping[str, float | None]] = {}
        self.private = False

    def look(self) -> None:
        """Read the lines that are new; all of a file that was written anew."""
        try:
            with self._path.open("rb") as file:
                state = os.fstat(file.fileno())
                if state.st_ino != self._file or state.st_size < self._at:
                    self._file, self._at = state.st_ino, max(0, state.st_size - _TAIL)
                    self._found, self.private = {}, False
                file.seek(self._at)
                content, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            self._found = {}
            return
        self._at += len(content) + len(newline)
        for line in content.decode(errors="replace").splitlines():
            entry = parse(line)
            if entry is not None and (at := whole(entry.get("round"))) is not None:
                self._found[at] = _figures(entry)
                self.private = self.private or table(entry.get("privacy")) is not None
        self._found = dict(sorted(self._found.items())[-KEPT:])

    def last(self, figure: str) -> float | None:
        """The newest value of a figure; None where it is not measured, or stays in the folder."""
        return next((value for value in reversed(self.columns().get(figure, [])) if value is not None), None)

    def columns(self) -> dict[str, list[float | None]]:
        """By figure, a value for each round, and "round", counted from 1; under privacy none of the data."""
        shown = [name for name in FIGURES if not (self.private and name in _OF_DATA)]
        return {
            "round": [at + 1 for at in self._found],
            **{name: [line[name] for line in self._found.values()] for name in shown},
        }


def _figures(entry: Mapping[str, Any]) -> dict[str, float | None]:
    """What a line states of its round; None for what is missing or damaged."""
    seconds = [number(entry.get(f"{name}_seconds")) for name in ("train", "exchange", "mix")]
    missed = wholes(entry.get("missed"))
    return {
        "round_seconds": None if None in seconds else sum(one or 0.0 for one in seconds),
        "missed": None if missed is None else len(missed),
        **{name: number(entry.get(name)) for name in ("accuracy", "test_loss", "disagreement")},
    }
