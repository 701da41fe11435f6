"""Tables of numbers without a schema: their cells as numbers and classes, and as inputs of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training.data.pool import Numbers
from dpeer.training.data.tables.inputs import FORMAT, Raw, TableInputs, as_targets, check_distinct
from dpeer.training.data.tables.numerals import Spellings, ambiguous, as_number, is_code
from dpeer.training.data.tables.schema import MISSING
from dpeer.training.data.tables.sheet import Sheet


@dataclass(frozen=True)
class PlainInputs(TableInputs):
    """Columns of numbers as they are; the model scales them itself where that is wanted.

    Attributes:
        target: The column to predict.
        classes: The classes by number; () where the target is a number.
        columns: The columns of inputs, sorted.
        group: The column that says which rows belong together; None without one.
    """

    target: str
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    group: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What each input is called: as its column."""
        return self.columns

    @property
    def width(self) -> int:
        """How many inputs a row has."""
        return len(self.columns)

    @property
    def target_range(self) -> None:
        """No plausible range of the number to predict is known without a schema."""

    def fit(self, raw: Tensor, *, own_statistics: bool) -> PlainInputs:
        """Itself: nothing is computed from the rows."""
        return self

    def prepare(self, raw: Tensor) -> Tensor:
        """The inputs as they are."""
        return raw

    def raw(self, sheet: Sheet, *, labels: bool, hint: str = "", learn: bool = False) -> Raw:
        """See `TableInputs.raw`; each row is its inputs already.

        Args:
            sheet: The table.
            labels: Whether to read the column to predict.
            hint: The end of an error about a column, in front of its name.
            learn: Whether a model is to learn from the rows: then float32 must resolve the numbers of each column.

        Raises:
            TaskError: A cell is not a finite number or class, or a column's numbers are nearly one in float32.
            UnknownName: A column is missing.
        """
        if missing := [name for name in self.columns if name not in sheet.cells]:
            raise UnknownName("column", ", ".join(missing), sheet.header, f"what the model needs; {sheet.path!r}")
        rows = np.empty((len(sheet), len(self.columns)), np.float32)
        for place, name in enumerate(self.columns):
            found = numbers(sheet, name, hint)
            if learn:
                check_distinct(found, f"{sheet.path!r}, column {name!r}")
            rows[:, place] = found
        return Raw(torch.from_numpy(rows), self.labels(sheet) if labels else None)

    def labels(self, sheet: Sheet) -> Tensor:
        """Class numbers, shape (rows,), int64; or values, shape (rows, 1), float32.

        Raises:
            TaskError: A cell is none of the classes, or no number.
        """
        if self.classes:
            return torch.from_numpy(class_numbers(sheet, self.target, self.classes))
        return as_targets(numbers(sheet, self.target), f"column {self.target!r}")

    def to_json(self) -> dict[str, Any]:
        """Everything that `restored` needs."""
        return {
            "format": FORMAT,
            "kind": "plain",
            "target": self.target,
            "classes": list(self.classes),
            "columns": list(self.columns),
            "group": self.group,
        }

    @classmethod
    def restored(cls, content: Mapping[str, Any]) -> PlainInputs:
        """Undo `to_json`."""
        return cls(content["target"], tuple(content["classes"]), tuple(content["columns"]), content["group"])


def check_filled(sheet: Sheet, name: str) -> None:
    """Refuse a column with gaps: empty cells, and words that stand for a gap (`MISSING`).

    Raises:
        TaskError: It has one.
    """
    gap = next((row for row, cell in enumerate(sheet.cells[name]) if not cell or cell in MISSING), None)
    if gap is not None:
        raise TaskError(f"{sheet.path!r}, row {sheet.places[gap]}, column {name!r} {_gap(sheet.cells[name][gap])}")


def _gap(cell: str) -> str:
    return f"is {f'a gap ({cell!r})' if cell else 'empty'}: fill it or drop the row"


def numbers(sheet: Sheet, name: str, hint: str = "") -> NDArray[np.float64]:
    """A column's numbers that float32 has, shape (rows,).

    Args:
        sheet: The table.
        name: The column.
        hint: The end of an error, in front of the column's name.

    Raises:
        TaskError: A cell is empty, no number, a code, or a number that float32 does not have.
    """
    cells = sheet.cells[name]
    found = _all_numbers(cells)
    if found is None:
        values = [None if is_code(cell, sheet.decimal) else as_number(cell, sheet.decimal) for cell in cells]
        wrong = next((row for row, value in enumerate(values) if value is None), None)
        if wrong is not None:
            raise TaskError(_wrong(sheet, name, wrong, f"{hint}{name}" if hint else ""))
        found = np.array(values, np.float64)
    return found


_SIMPLE = frozenset("0123456789.-")


def _all_numbers(cells: Sequence[str]) -> NDArray[np.float64] | None:
    """The numbers of cells of digits, point and minus alone, none of which is a code; None for others."""
    if not _SIMPLE.issuperset("".join(cells)) or any(
        is_code(cell) for cell in cells if cell[:1] == "0" or len(cell) > 15
    ):
        return None
    try:
        found = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    return found if np.abs(found).max(initial=0.0) <= np.finfo(np.float32).max else None


def _wrong(sheet: Sheet, name: str, row: int, advice: str) -> str:
    cell = sheet.cells[name][row]
    where = f"{sheet.path!r}, row {sheet.places[row]}, column {name!r}"
    if not cell or cell in MISSING:
        return f"{where} {_gap(cell)}{_of_schema('gaps', advice)}"
    if readings := ambiguous(cell, sheet.decimal):
        return f"{where}: {cell!r} may be {' or '.join(readings)}: write numbers without marks for thousands{advice}"
    if is_code(cell, sheet.decimal):
        return (
            f"{where}: {cell!r} is a code and would become {as_number(cell, sheet.decimal):g}: a schema reads codes "
            f"(`dpeer schema init`){advice}"
        )
    if finite(cell):
        return (
            f"{where}: {cell!r} does not fit float32, which ends at {np.finfo(np.float32).max:.2g}: give the column in "
            f"another unit{advice}"
        )
    words = advice if _is_number(cell) else _of_schema("words and dates", advice)
    return f"{where}: expected a finite number, not {cell!r}{words}"


def _of_schema(kind: str, advice: str) -> str:
    """The advice on a column to learn from, with what would read it; empty without advice."""
    return f"; a schema reads {kind} (`dpeer schema init`){advice}" if advice else ""


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def finite(cell: str) -> bool:
    """Whether it is a finite number."""
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def class_numbers(sheet: Sheet, name: str, classes: tuple[str, ...]) -> Numbers:
    """A column's class numbers, shape (rows,).

    Raises:
        TaskError: A cell is none of the classes, in any spelling (`Spellings`).
    """
    cells = sheet.cells[name]
    spellings = Spellings(classes, cells)
    places = {cell: spellings.place(cell) for cell in set(cells)}
    for cell, place in zip(cells, sheet.places, strict=True):
        if places[cell] is None:
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
