"""Decoder of cells by a schema: a number for each, or why it does not fit; no torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import IntEnum
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpeer.training.data.tables.readings import (
    Spellings,
    all_numbers,
    as_number,
    dates,
    numbers,
    of_unit,
    plainly,
)
from dpeer.training.data.tables.schema import OTHER, Category, Column, Date, Group, Number, Target, YesNo


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
        values: A number for each row, shape (rows,): the number itself, days since `Date.since`, 1 or -1 for yes or no,
            the place in `slots` of a category, the number of a class; NaN without one.
        verdicts: A `Verdict` for each row, shape (rows,).
        bounds: For each row -1 if it is only known to be below its value, 1 if above, else 0; None without limits.
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


Read = Column | Target | Group
"""What cells are decoded of."""


class Judged(NamedTuple):
    """A cell: its number or NaN, how it fits, which bound the number is, and the dress of the cell."""

    value: float
    verdict: Verdict
    bound: int = 0
    how: str = ""


def _unread(verdict: Verdict) -> Judged:
    return Judged(math.nan, verdict)


def slots(column: Category) -> tuple[str, ...]:
    """The inputs of a category: its words sorted, and last what all others become."""
    return (*sorted({*column.values} - {OTHER}), OTHER)


def decode(
    column: Read, cells: Sequence[str], missing: Sequence[str] = (), *, decimal: str = ".", codes: bool = True
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
            values = np.where(empty, math.nan, np.where(beyond, np.clip(found, low, high), found))
            verdicts = np.where(empty, Verdict.GAP, beyond * Verdict.BEYOND)
            return Decoded(values, verdicts, np.zeros(len(cells)) if limited else None)
    judge = _judge(column, cells, decimal, codes=codes)
    known: dict[str, Judged] = {}
    for cell in {*cells}:
        # A gap that is written -1 is one as -1.0, too.
        is_gap = cell in gaps or (bool(of_gaps) and _single(cell, decimal) in of_gaps)
        known[cell] = _unread(Verdict.GAP) if is_gap else judge(cell)
    values = np.fromiter((known[cell].value for cell in cells), np.float64, len(cells))
    verdicts = np.fromiter((known[cell].verdict for cell in cells), np.int64, len(cells))
    bounds = np.fromiter((known[cell].bound for cell in cells), np.float64, len(cells)) if limited else None
    return Decoded(values, verdicts, bounds, Counter(how for cell in cells if (how := known[cell].how)))


def _single(cell: str, decimal: str) -> float | None:
    """The one number that a cell is, without unit and bound."""
    if (value := as_number(cell, decimal)) is not None:
        return value
    found = numbers(cell, decimal)
    return found[0].value if len(found) == 1 and not found[0].unit and not found[0].bound else None


def _judge(column: Read, cells: Sequence[str], decimal: str, *, codes: bool) -> Callable[[str], Judged]:
    match column:
        case Number() | Target(kind="regression"):
            return partial(_number, column, decimal, codes)
        case Date():
            return partial(_date, column)
        case Category():
            words = slots(column)
            return partial(_word, [(Spellings(words, cells, decimal), range(len(words)))], len(words) - 1)
        case YesNo():
            both = ((column.yes, 1), (column.no, -1))
            return partial(_word, [(Spellings(words, cells), [value] * len(words)) for words, value in both], None)
        case Target():
            return partial(_word, [(Spellings(column.classes, cells), range(len(column.classes)))], None)
    # numpy drops a NUL at the end of a text, so two groups would be one
    return lambda cell: Judged(0.0, Verdict.WRONG if isinstance(column, Group) and "\0" in cell else Verdict.FITS)


def readings(column: Any, cell: str, decimal: str) -> tuple[str, ...]:
    """The readings of a cell as what its column is, as they are shown."""
    if isinstance(column, Date):
        return tuple(f"{moment:%Y-%m-%d} by {form}" for moment, form in dates(cell, column.format).items())
    return tuple(one.shown for one in of_unit(numbers(cell, decimal, column.unit), column.unit))


def _within(value: float, ends: tuple[float, float] | None, bound: int = 0, how: str = "") -> Judged:
    if ends is None or ends[0] <= value <= ends[1]:
        return Judged(value, Verdict.FITS, bound, how)
    return Judged(min(max(value, ends[0]), ends[1]), Verdict.BEYOND, bound, how)


def _number(column: Any, decimal: str, codes: bool, cell: str) -> Judged:
    if codes and (value := as_number(cell, decimal)) is not None:
        return _within(value, column.range)
    every = numbers(cell, decimal, column.unit)
    found = of_unit(every, column.unit)
    if len(found) != 1:
        return _unread(Verdict.DOUBLE if found else Verdict.UNIT if every else Verdict.WRONG)
    (one,) = found
    if one.code and not codes:
        return _unread(Verdict.CODE)
    if one.bound and not getattr(column, "limits", False):
        return _unread(Verdict.BOUND)
    return _within(one.value, column.range, one.bound, one.how)


def _days(moment: date, since: date) -> float:
    """Days from one day to another, or to a point in time."""
    if isinstance(moment, datetime):
        return (moment - datetime(since.year, since.month, since.day)).total_seconds() / 86400
    return float((moment - since).days)


def range_of(column: Number | Date) -> tuple[float, float] | None:
    """The range of a column in the unit of `Decoded.values`."""
    if isinstance(column, Number):
        return column.range
    ends = column.range  # the last day is plausible until it ends
    return None if ends is None else (_days(ends[0], column.since), _days(ends[1], column.since) + 1)


def filling_of(column: Number | Date) -> float | None:
    """What a gap counts as, if the schema says it, in the unit of `Decoded.values`."""
    if isinstance(column, Number):
        return column.filling
    return None if column.filling is None else _days(column.filling, column.since)


def _date(column: Date, cell: str) -> Judged:
    ends, found = range_of(column), dates(cell, column.format)
    if len(found) != 1:
        return _unread(Verdict.DOUBLE if found else Verdict.WRONG)
    ((moment, form),) = found.items()
    how = plainly(cell)[1]
    if "%y" not in form:
        return _within(_days(moment, column.since), ends, how=how)
    # Two digits of a year: the century follows from the range, if it has one century alone.
    inside = []
    for years in (-100, 0, 100):
        with suppress(ValueError):  # the 29th of February of a year that is no leap year
            value = _days(moment.replace(year=moment.year + years), column.since)
            inside += [value] if ends is not None and ends[0] <= value <= ends[1] else []
    return Judged(inside[0], Verdict.FITS, how=how) if len(inside) == 1 else _unread(Verdict.WRONG)


def _word(named: Sequence[tuple[Spellings, Sequence[int]]], other: int | None, cell: str) -> Judged:
    for spellings, values in named:
        if (place := spellings.place(cell)) is not None:
            return Judged(float(values[place]), Verdict.FITS)
    return _unread(Verdict.WRONG) if other is None else Judged(float(other), Verdict.OTHER)
