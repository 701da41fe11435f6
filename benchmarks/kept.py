"""Runs whose results are lines of a file, so that a benchmark that was stopped makes only what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
"""The values that distinguish one run from the others, in plain JSON."""

Line = dict[str, Any]
"""The results of a run, in plain JSON values."""


class Kept:
    """The results of cells, of which each is made once.

    Args:
        path: The file, a line for each cell; its folder is made.
        measure: Makes a cell.
        only: Make nothing: cells that are not in the file stay missing.
        few: The most cells of one call, to try a program; None for all.
    """

    def __init__(
        self, path: Path, measure: Callable[[Cell], Line], *, only: bool = False, few: int | None = None
    ) -> None:
        self._path, self._measure, self._only, self._few = path, measure, only, few
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self._found: dict[str, Line] = {_key(line["cell"]): line for line in map(json.loads, lines)}

    def __getitem__(self, cell: Cell) -> Line:
        return self._found[_key(cell)]

    def __contains__(self, cell: Cell) -> bool:
        return _key(cell) in self._found

    def make(self, cells: Iterable[Cell]) -> list[Cell]:
        """Make the missing ones; return those that exist then."""
        wanted = list(cells)[: self._few]
        for number, cell in enumerate(wanted, 1):
            if cell not in self and not self._only:
                line = self._found[_key(cell)] = {"cell": cell, **self._measure(cell)}
                with self._path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                print(f"{number} of {len(wanted)}: {line}", flush=True)
        return [cell for cell in wanted if cell in self]


def _key(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)
