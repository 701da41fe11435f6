"""Columns of text as numbers and classes; an error names row and column."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import TaskError
from dpeer.training.datasets.pool import Numbers
from dpeer.training.schema.sheet import Sheet


def check_filled(sheet: Sheet, name: str) -> None:
    """Refuse a column with gaps.

    Raises:
        TaskError: It has one.
    """
    cells = list(sheet.cells[name])
    if "" in cells:
        place = sheet.places[cells.index("")]
        raise TaskError(f"{sheet.path!r}, row {place}, column {name!r} is empty: fill it or drop the row")


def numbers(sheet: Sheet, name: str, hint: str = "") -> NDArray[np.float32]:
    """A column's finite numbers, shape (rows,).

    Args:
        sheet: The table.
        name: The column.
        hint: What the end of an error says, in front of the column's name.

    Raises:
        TaskError: A cell is empty, or no number, or one that float32 does not have.
    """
    cells = sheet.cells[name]
    try:
        with np.errstate(over="ignore"):
            found = np.fromiter(map(float, cells), np.float64, len(cells)).astype(np.float32)
        if np.isfinite(found).all():
            return found
    except ValueError:
        pass
    place, cell = next((place, cell) for place, cell in zip(sheet.places, cells, strict=True) if not finite(cell))
    advice = f"{hint}{name}" if hint else ""
    where = f"{sheet.path!r}, row {place}, column {name!r}"
    if not cell:
        raise TaskError(f"{where} is empty: fill it or drop the row{advice}")
    if finite(cell, np.float64):
        raise TaskError(
            f"{where}: {cell!r} does not fit float32, which ends at {np.finfo(np.float32).max:.2g}: give the column in "
            f"another unit{advice}"
        )
    raise TaskError(f"{where}: expected a finite number, not {cell!r}{advice}")


def finite(cell: str, kind: type[np.floating[Any]] = np.float32) -> bool:
    """Whether it is a number that this type has."""
    try:
        with np.errstate(over="ignore"):
            return bool(np.isfinite(kind(float(cell))))
    except ValueError:
        return False


def class_numbers(sheet: Sheet, name: str, classes: tuple[str, ...]) -> Numbers:
    """A column's class numbers, shape (rows,).

    Raises:
        TaskError: A cell is none of the classes.
    """
    places = {word: number for number, word in enumerate(classes)}
    cells = sheet.cells[name]
    for cell, place in zip(cells, sheet.places, strict=True):
        if cell not in places:
            raise TaskError(
                f"{sheet.path!r}, row {place}, column {name!r}: {cell!r} is none of the classes {', '.join(classes)}"
            )
    return np.array([places[cell] for cell in cells], np.int64)


def groups_of(sheet: Sheet, name: str, known: dict[str, int] | None = None) -> tuple[NDArray[np.str_], Numbers]:
    """Which rows belong together: by the name in the cell, and by a number each; both of shape (rows,).

    Args:
        sheet: The table.
        name: The column.
        known: The numbers of groups of other tables, to which those of this one are added.

    Raises:
        TaskError: A cell is empty, or has a NUL character: numpy drops it at the end, and two groups would be one.
    """
    check_filled(sheet, name)
    cells, numbers = sheet.cells[name], {} if known is None else known
    for cell, place in zip(cells, sheet.places, strict=True):
        if "\0" in cell:
            raise TaskError(f"{sheet.path!r}, row {place}, column {name!r}: {cell!r} has a NUL character: leave it out")
        numbers.setdefault(cell, len(numbers))
    return np.array(cells), np.array([numbers[cell] for cell in cells], np.int64)
