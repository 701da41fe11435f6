"""Decoder of cells by a schema: a number for each, or why it does not fit; no torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpeer.training.data.tables.numerals import all_numbers, as_number
from dpeer.training.data.tables.readings import Reading, dates, numbers, plainly, same_unit
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
    """It has two readings."""
    CODE = 6
    """It looks like a number, and is written otherwise than numbers are."""
    UNIT = 7
    """A number in a unit that is not the column's."""
    BOUND = 8
    """What a number is only known to be below or above, in a column without limits."""


@dataclass(frozen=True)
class Decoded:
    """A column's cells.

    Attributes:
        values: A number for each row, shape (rows,), float64: the number itself, days since `Date.since`, 1 or -1 for
            yes or no, the place in `slots` of a category, the number of a class; NaN without one.
        verdicts: A `Verdict` for each row, shape (rows,).
        bounds: For each row -1 if the value is only known to be below `values`, 1 if above, else 0; None where the
            column has no limits.
        dressed: By dress that is not plain, the number of cells that were read in it.
    """

    values: NDArray[np.float64]
    verdicts: NDArray[np.int64]
    bounds: NDArray[np.float64] | None = None
    dressed: Mapping[str, int] = field(default_factory=dict)

    def rows(self, *verdicts: Verdict) -> NDArray[np.int64]:
        """The rows with one of these verdicts."""
        return np.flatnonzero(np.isin(self.verdicts, verdicts))

    def count(self, verdict: Verdict) -> int:
        """How many rows have this verdict."""
        return int((self.verdicts == verdict).sum())


class Judged(NamedTuple):
    """A cell: its number or NaN, how it fits, which bound the number is, and the dress of the cell."""

    value: float
    verdict: Verdict
    bound: int = 0
    how: str = ""


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
    of_gaps = {value for gap in gaps if (value := _single(gap, ".")) is not None}
    limited = isinstance(column, Number) and column.limits
    if isinstance(column, Number | Target):
        found = None if column.kind == "classification" else all_numbers(cells, decimal, codes=codes)
        if found is not None:
            low, high = column.range or (-math.inf, math.inf)
            empty, beyond = np.isin(found, [*of_gaps]), (found < low) | (found > high)
            values = np.where(empty, _NOTHING, np.where(beyond, np.clip(found, low, high), found))
            verdicts = np.where(empty, Verdict.GAP, beyond * Verdict.BEYOND)
            return Decoded(values, verdicts, np.zeros(len(cells)) if limited else None)
    judge = _judge(column, cells, decimal, codes=codes)
    known: dict[str, Judged] = {}
    for cell in {*cells}:
        # A gap that is written -1 is one as -1.0, too.
        is_gap = cell in gaps or (bool(of_gaps) and _single(cell, decimal) in of_gaps)
        known[cell] = Judged(_NOTHING, Verdict.GAP) if is_gap else judge(cell)
    values = np.fromiter((known[cell][0] for cell in cells), np.float64, len(cells))
    verdicts = np.fromiter((known[cell][1] for cell in cells), np.int64, len(cells))
    bounds = np.fromiter((known[cell].bound for cell in cells), np.float64, len(cells)) if limited else None
    dressed = {cell: it[3] for cell, it in known.items() if it[3]}
    hows = Counter(dressed[cell] for cell in cells if cell in dressed) if dressed else {}
    return Decoded(values, verdicts, bounds, hows)


def _single(cell: str, decimal: str) -> float | None:
    """The one number that a cell is, without unit and bound."""
    if (value := as_number(cell, decimal)) is not None:
        return value
    found = numbers(cell, decimal)
    return found[0].value if len(found) == 1 and not found[0].unit and not found[0].bound else None


def _judge(column: Column | Target | Group, cells: Sequence[str], decimal: str, *, codes: bool) -> Judge:
    match column:
        case Number() | Target(kind="regression"):
            return partial(_number, column, decimal, codes)
        case Date():
            return partial(_date, column)
        case Category():
            words = slots(column)
            return partial(_word, Spellings(words, cells, decimal), float(len(words) - 1))
        case YesNo():
            return partial(_yes_no, Spellings(column.yes, cells), Spellings(column.no, cells))
        case Target():
            return partial(_word, Spellings(column.classes, cells), None)
        case Group():  # numpy drops a NUL at the end of a text, so two groups would be one
            return lambda cell: Judged(0.0, Verdict.WRONG if "\0" in cell else Verdict.FITS)
        case _:
            return lambda cell: Judged(0.0, Verdict.FITS)


def readings(column: Any, cell: str, decimal: str) -> tuple[str, ...]:
    """The readings of a cell as what its column is, as they are shown."""
    if isinstance(column, Date):
        return tuple(f"{moment:%Y-%m-%d} by {form}" for moment, form in dates(cell, column.format).items())
    return tuple(one.shown for one in _of_unit(column, numbers(cell, decimal, column.unit)))


def _of_unit(column: Any, found: Sequence[Reading]) -> list[Reading]:
    return [one for one in found if not one.unit or same_unit(one.unit, column.unit)]


def _within(value: float, ends: tuple[float, float] | None, bound: int = 0, how: str = "") -> Judged:
    if ends is None or ends[0] <= value <= ends[1]:
        return Judged(value, Verdict.FITS, bound, how)
    return Judged(min(max(value, ends[0]), ends[1]), Verdict.BEYOND, bound, how)


def _number(column: Any, decimal: str, codes: bool, cell: str) -> Judged:
    if codes and (value := as_number(cell, decimal)) is not None:
        return _within(value, column.range)
    every = numbers(cell, decimal, column.unit)
    found = _of_unit(column, every)
    if len(found) != 1:
        return Judged(_NOTHING, Verdict.DOUBLE if found else Verdict.UNIT if every else Verdict.WRONG)
    (one,) = found
    if one.code and not codes:
        return Judged(_NOTHING, Verdict.CODE)
    if one.bound and not getattr(column, "limits", False):
        return Judged(_NOTHING, Verdict.BOUND)
    return _within(one.value, column.range, one.bound, one.how)


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
    ends, found = range_of(column), dates(cell, column.format)
    if len(found) != 1:
        return Judged(_NOTHING, Verdict.DOUBLE if found else Verdict.WRONG)
    ((moment, form),) = found.items()
    how = plainly(cell)[1]
    if "%y" not in form:
        return _within(days(moment, column.since), ends, how=how)
    # Two digits of a year: the century follows from the range, if it has one century alone.
    shifted = [value for shift in (-100, 0, 100) if (value := _shifted(moment, shift, column)) is not None]
    inside = [value for value in shifted if ends is not None and ends[0] <= value <= ends[1]]
    return Judged(inside[0], Verdict.FITS, how=how) if len(inside) == 1 else Judged(_NOTHING, Verdict.WRONG)


def _shifted(moment: datetime, years: int, column: Date) -> float | None:
    try:
        return days(moment.replace(year=moment.year + years), column.since)
    except ValueError:  # the 29th of February of a year that is no leap year
        return None


def _word(spellings: Spellings, other: float | None, cell: str) -> Judged:
    found = spellings.place(cell)
    if found is not None:
        return Judged(float(found), Verdict.FITS)
    return Judged(_NOTHING, Verdict.WRONG) if other is None else Judged(other, Verdict.OTHER)


def _yes_no(yes: Spellings, no: Spellings, cell: str) -> Judged:
    if yes.place(cell) is not None:
        return Judged(1.0, Verdict.FITS)
    return Judged(-1.0, Verdict.FITS) if no.place(cell) is not None else Judged(_NOTHING, Verdict.WRONG)
