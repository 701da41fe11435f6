"""Decoder of cells by a schema: a number for each, or why it does not fit; no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.training.data.tables.numerals import all_numbers, ambiguous, as_number, is_code
from dpeer.training.data.tables.schema import OTHER, Category, Column, Date, Group, Number, Target, YesNo
from dpeer.training.data.tables.spellings import Spellings


class Verdict(IntEnum):
    """How a cell fits its column."""

    FITS = 0
    GAP = 1
    """No value."""
    OTHER = 2
    """A category that the schema does not list."""
    BEYOND = 3
    """Outside the plausible range; the value is the range's nearer end."""
    WRONG = 4
    """It cannot be read."""
    DOUBLE = 5
    """It can be read as two numbers."""
    CODE = 6
    """It looks like a number, and is written otherwise than numbers are."""


@dataclass(frozen=True)
class Decoded:
    """A column's cells.

    Attributes:
        values: A number for each row, shape (rows,), float64: the number itself, days since `Date.since`, 1 or -1 for
            yes or no, the place in `slots` of a category, the number of a class; NaN without one.
        verdicts: A `Verdict` for each row, shape (rows,).
    """

    values: NDArray[np.float64]
    verdicts: NDArray[np.int64]

    def rows(self, *verdicts: Verdict) -> NDArray[np.int64]:
        """The rows with one of these verdicts."""
        return np.flatnonzero(np.isin(self.verdicts, verdicts))

    def count(self, verdict: Verdict) -> int:
        """How many rows have this verdict."""
        return int((self.verdicts == verdict).sum())


Judged = tuple[float, Verdict]
Judge = Callable[[str], Judged]
_NOTHING = math.nan


def slots(column: Category) -> tuple[str, ...]:
    """The inputs of a category: its words sorted, and last what all others become."""
    return (*sorted({*column.values} - {OTHER}), OTHER)


def decode(
    column: Column | Target | Group,
    cells: Sequence[str],
    missing: Sequence[str] = (),
    *,
    decimal: str = ".",
    codes: bool = True,
) -> Decoded:
    """Read the cells of a column; of a column of text only the gaps are found.

    Args:
        column: What they must be.
        cells: The texts, without blanks around them.
        missing: Words that stand for a gap besides the column's own; an empty cell always is one.
        decimal: The table's decimal mark; see `decimal_mark`.
        codes: Whether codes such as `007` are numbers where a number is expected.
    """
    gaps = {"", *missing, *(column.missing if isinstance(column, Column) else ())}
    numbers = {value for gap in gaps if (value := as_number(gap)) is not None}
    if isinstance(column, Number | Target) and not numbers:
        found = None if column.kind == "classification" else all_numbers(cells, decimal, codes=codes)
        if found is not None:
            low, high = column.range or (-math.inf, math.inf)
            beyond = (found < low) | (found > high)
            return Decoded(np.where(beyond, np.clip(found, low, high), found), beyond * Verdict.BEYOND)
    judge = _judge(column, cells, decimal, codes=codes)
    known: dict[str, Judged] = {}
    for cell in {*cells}:
        # A gap that is written -1 is one as -1.0, too.
        is_gap = cell in gaps or (bool(numbers) and as_number(cell, decimal) in numbers)
        known[cell] = (_NOTHING, Verdict.GAP) if is_gap else judge(cell)
    values = np.fromiter((known[cell][0] for cell in cells), np.float64, len(cells))
    verdicts = np.fromiter((known[cell][1] for cell in cells), np.int64, len(cells))
    return Decoded(values, verdicts)


def _judge(column: Column | Target | Group, cells: Sequence[str], decimal: str, *, codes: bool) -> Judge:
    match column:
        case Number() | Target(kind="regression"):
            return partial(_number, column.range, decimal, codes)
        case Date():
            return partial(_date, column)
        case Category():
            words = slots(column)
            return partial(_word, Spellings(words, cells), float(len(words) - 1))
        case YesNo():
            return partial(_yes_no, Spellings(column.yes, cells), Spellings(column.no, cells))
        case Target():
            return partial(_word, Spellings(column.classes, cells), None)
        case Group():  # numpy drops a NUL at the end of a text, so two groups would be one
            return lambda cell: (0.0, Verdict.WRONG if "\0" in cell else Verdict.FITS)
        case _:
            return lambda cell: (0.0, Verdict.FITS)


def _within(value: float, ends: tuple[float, float] | None) -> Judged:
    if ends is None or ends[0] <= value <= ends[1]:
        return value, Verdict.FITS
    return min(max(value, ends[0]), ends[1]), Verdict.BEYOND


def _number(ends: tuple[float, float] | None, decimal: str, codes: bool, cell: str) -> Judged:
    value = as_number(cell, decimal)
    if value is None:
        return _NOTHING, Verdict.WRONG if ambiguous(cell, decimal) is None else Verdict.DOUBLE
    return _within(value, ends) if codes or not is_code(cell, decimal) else (_NOTHING, Verdict.CODE)


def as_time(cell: str, formats: Sequence[str]) -> datetime | None:
    """The point in time that a cell is, in the first format that fits, without a time zone; None if none fits."""
    for one in formats:
        try:
            found = datetime.strptime(cell, one)
        except ValueError:
            continue
        return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
    return None


def days(moment: date, since: date) -> float:
    """Days from one day to another, or to a point in time."""
    if isinstance(moment, datetime):
        return (moment - datetime(since.year, since.month, since.day)).total_seconds() / 86400
    return float((moment - since).days)


def range_of(column: Any) -> tuple[float, float] | None:
    """The range of a column of numbers or dates in the unit of `Decoded.values`."""
    if isinstance(column, Date):
        ends = column.range
        # The last day is plausible until it ends.
        return None if ends is None else (days(ends[0], column.since), days(ends[1], column.since) + 1)
    found: tuple[float, float] | None = column.range
    return found


def filling_of(column: Any) -> float | None:
    """What a gap in a column of numbers or dates counts as, if the schema says it, in the unit of `Decoded.values`."""
    if isinstance(column, Date):
        return None if column.filling is None else days(column.filling, column.since)
    found: float | None = column.filling
    return found


def _date(column: Date, cell: str) -> Judged:
    ends = range_of(column)
    moment = as_time(cell, column.format)
    if moment is None:
        return _NOTHING, Verdict.WRONG
    if not _short_year(column, cell):
        return _within(days(moment, column.since), ends)
    # Two digits of a year: the century follows from the range, if it has one century alone.
    found = [value for shift in (-100, 0, 100) if (value := _shifted(moment, shift, column)) is not None]
    inside = [value for value in found if ends is not None and ends[0] <= value <= ends[1]]
    return (inside[0], Verdict.FITS) if len(inside) == 1 else (_NOTHING, Verdict.WRONG)


def _short_year(column: Date, cell: str) -> bool:
    """Whether the format in which the cell is read has two digits of the year."""
    return next("%y" in one for one in column.format if as_time(cell, [one]) is not None)


def _shifted(moment: datetime, years: int, column: Date) -> float | None:
    try:
        return days(moment.replace(year=moment.year + years), column.since)
    except ValueError:  # the 29th of February of a year that is no leap year
        return None


def _word(spellings: Spellings, other: float | None, cell: str) -> Judged:
    found = spellings.place(cell)
    if found is not None:
        return float(found), Verdict.FITS
    return (_NOTHING, Verdict.WRONG) if other is None else (other, Verdict.OTHER)


def _yes_no(yes: Spellings, no: Spellings, cell: str) -> Judged:
    if yes.place(cell) is not None:
        return 1.0, Verdict.FITS
    return (-1.0, Verdict.FITS) if no.place(cell) is not None else (_NOTHING, Verdict.WRONG)
