"""Check of a table against a schema: decoded columns, and all cells that do not fit, by column and row; no torch."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpeer.exceptions import TaskError
from dpeer.toml_text import value_text
from dpeer.training.data.tables.decode import Decoded, Read, Verdict, decode, readings
from dpeer.training.data.tables.readings import advice
from dpeer.training.data.tables.schema import Column, Date, Group, Schema, Target
from dpeer.training.data.tables.sheet import Sheet

_LONGEST = 60
"""Of a longer cell only the beginning is shown."""

_MOST = 5
"""How many other columns with mistakes are named."""

_ROUNDED = 0.01
"""The largest share of the deviation of numbers that their rounding to float32 may be."""


@dataclass(frozen=True)
class Problem:
    """A mistake in a column, and what would be right.

    Attributes:
        column: Its name.
        what: The mistake.
        cells: Rows' numbers as a spreadsheet shows them, with what stands there; empty if it is the whole column.
        rows: How many rows the table has.
    """

    column: str
    what: str
    cells: tuple[tuple[int, str], ...] = ()
    rows: int = 0

    def line(self, most: int | None = 3, rest: str = "") -> str:
        """The mistake on one line, with so many different cells, or all; `rest` follows the number of the others."""
        if not self.cells:
            return f"column {self.column!r} {self.what}"
        counts, first = Counter(cell for _, cell in self.cells), {cell: row for row, cell in reversed(self.cells)}
        shown = [_in_row(first[cell], cell, count) for cell, count in [*counts.items()][:most]]
        left = sum([*counts.values()][len(shown) :])
        if most is None:
            shown = [_in_row(row, cell) for row, cell in self.cells]
        more = f", and {left} more{rest}" if left else ""
        return f"column {self.column!r}, {len(self.cells)} of {self.rows} cells: {self.what}: {', '.join(shown)}{more}"


def _in_row(row: int, cell: str, count: int = 1) -> str:
    shown = repr(cell if len(cell) <= _LONGEST else f"{cell[:_LONGEST]}...") if cell else ""
    if count > 1:
        return f"{shown} {count} times, first in row {row}".lstrip()
    return f"row {row}: {shown}" if cell else f"row {row}"


@dataclass(frozen=True)
class Checked:
    """A table as a schema reads it: the columns that were read, and what does not fit."""

    schema: Schema
    sheet: Sheet
    columns: Mapping[str, Decoded]
    problems: tuple[Problem, ...]

    def __len__(self) -> int:
        return len(self.sheet)

    @property
    def classes(self) -> dict[str, int]:
        """Rows by class, in the classes' order; empty for numbers."""
        target = self.schema.target
        values = self.columns[target.column].values
        return {name: int((values == number).sum()) for number, name in enumerate(target.classes)}

    @property
    def labels(self) -> NDArray[Any]:
        """Class numbers, shape (rows,), int64; or values, shape (rows, 1), float32."""
        values = self.columns[self.schema.target.column].values
        return values.astype(np.int64) if self.schema.target.classes else values.astype(np.float32)[:, None]

    @property
    def gaps(self) -> dict[str, int]:
        """Gaps by column, where it has any."""
        return {name: count for name, found in self.columns.items() if (count := found.count(Verdict.GAP))}

    @property
    def others(self) -> dict[str, dict[str, int]]:
        """By column, the words that are not known and become `other`, with their numbers."""
        counted = {}
        for name, found in self.columns.items():
            if len(rows := found.rows(Verdict.OTHER)):
                counted[name] = dict(Counter(self.sheet.cells[name][row] for row in rows).most_common())
        return counted

    @property
    def dressed(self) -> tuple[str, ...]:
        """Sentences on cells that were read and are not written plainly."""
        hidden = [(name, count) for name, count in self.sheet.hidden.items() if name in self.columns]
        lines = [f"invisible signs were taken off {count} {_cells(count)} of {name!r}" for name, count in hidden]
        for name, found in self.columns.items():
            lines += [f"{count} {_cells(count)} of {name!r} read {how}" for how, count in found.dressed.items()]
        return tuple(lines)

    @property
    def flags(self) -> tuple[str, ...]:
        """For each row its gaps, and what of it is unknown, cut, or a bound; empty for a row without any."""
        found: list[list[str]] = [[] for _ in range(len(self))]
        for name in self.schema.inputs:
            column = self.columns[name]
            for verdict, word in ((Verdict.GAP, "gap"), (Verdict.OTHER, "unknown"), (Verdict.BEYOND, "cut")):
                for row in column.rows(verdict):
                    found[row].append(f"{name}: {word}")
            for row in () if column.bounds is None else np.flatnonzero(column.bounds):
                found[row].append(f"{name}: bound")
        return tuple("; ".join(flags) for flags in found)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on cells that are not written plainly, or did not fit, and were read all the same."""
        lines, others = [*self.dressed], self.others
        for name, column in self.schema.inputs.items():
            if count := self.columns[name].count(Verdict.BEYOND):
                what = f"outside the range of {name!r}, {_range(column)}: cut to its nearer end"
                lines.append(f"{count} {'value lies' if count == 1 else 'values lie'} {what}")
            if known := others.get(name):
                first = ", ".join(map(repr, [*known][:3])) + (", ..." if len(known) > 3 else "")
                what = f"values of {name!r} are not in the schema and become other: {first}"
                lines.append(f"{sum(known.values())} of {len(self)} {what}")
        return tuple(lines)

    @property
    def unknown(self) -> list[str]:
        """Columns of the table that the schema does not have; they are left out."""
        return [name for name in self.sheet.header if name not in {*self.schema.columns, self.schema.target.column}]

    def accepted(self, advice: str = "") -> Checked:
        """The table, if it fits.

        Raises:
            TaskError: It does not. The message names the first column, the share of its cells and the first rows, and
                ends with the advice, but where options alone say what a target or group is.
        """
        if not self.problems:
            return self
        first, *more = self.problems
        named = [*dict.fromkeys(repr(one.column) for one in more)]
        columns = ", ".join(named[:_MOST]) + (", ..." if len(named) > _MOST else "")
        others = f"; {len(more)} more problem{'s' * (len(more) > 1)}, in {columns}" if more else ""
        ending = advice if not self.schema.plain or first.column in self.schema.inputs else ""
        against = "" if self.schema.plain else " does not fit the schema"
        raise TaskError(f"{self.sheet.path!r}{against}: {first.line()}{others}{ending}")


def _cells(count: int) -> str:
    return "cell" if count == 1 else "cells"


def check(schema: Schema, sheet: Sheet, *, labels: bool = True, learn: bool = True) -> Checked:
    """Read the columns of a table, with a verdict on every cell.

    The column to predict is one of them only with `labels`. New rows for a trained model, without `learn`, need no
    group, and their values outside a range are cut.
    """
    wanted: dict[str, Read] = {**schema.inputs}
    if labels:
        wanted[schema.target.column] = schema.target
    if learn and schema.group is not None:
        wanted[schema.group] = Group(kind="group")
    read = {}
    for name, column in wanted.items():
        if name not in sheet.cells:
            continue
        gaps = schema.missing
        if isinstance(column, Target):  # what is called a class is no gap
            gaps = tuple(word for word in gaps if word not in column.classes)
        read[name] = decode(column, sheet.cells[name], gaps, decimal=sheet.decimal, codes=not schema.plain)
    problems = _absent(wanted, sheet)
    for name, found in read.items():
        problems += _problems(schema, sheet, name, wanted[name], found, learn=learn)
    return Checked(schema, sheet, read, tuple(problems))


def _absent(wanted: Iterable[str], sheet: Sheet) -> list[Problem]:
    """Columns that the schema has and the table has not."""
    needed, found = {*wanted}, []
    for name in wanted:
        if name not in sheet.cells:
            near = difflib.get_close_matches(name, [other for other in sheet.header if other not in needed], 1, 0.5)
            found.append(Problem(name, "is not in the file" + (f" (is it the column {near[0]!r}?)" if near else "")))
    return found


def _problems(schema: Schema, sheet: Sheet, name: str, column: Read, found: Decoded, *, learn: bool) -> list[Problem]:
    is_input, cells = isinstance(column, Column), sheet.cells[name]
    unit = getattr(column, "unit", "")
    whats = {
        Verdict.DOUBLE: "two readings",
        Verdict.CODE: "a code, not a number",
        Verdict.UNIT: f"a number in another unit than the column's, {unit!r}",
        Verdict.BOUND: "a bound, not a value: limits = true reads it" if is_input else "a bound, not a value",
        Verdict.WRONG: f"expected {_told(column)}",
    }
    if learn or not is_input:
        whats[Verdict.BEYOND] = f"outside the range {_range(column)}"
    if schema.plain or not is_input:
        whats[Verdict.GAP] = "a gap: fill it or drop the row"
    problems = []
    for verdict, what in whats.items():
        if len(rows := found.rows(verdict)):
            if verdict == Verdict.DOUBLE:
                both = " or ".join(readings(column, cells[rows[0]], sheet.decimal))
                how = "write one of the formats" if isinstance(column, Date) else advice(cells[rows[0]])
                what = f"two readings ({both}): {how}"
            problems.append(Problem(name, what, tuple((sheet.places[row], cells[row]) for row in rows), len(sheet)))
    as_it_is = (isinstance(column, Target) and not column.classes) or (schema.plain and learn and is_input)
    if not problems and as_it_is and (what := _too_alike(found.values)):
        problems.append(Problem(name, what))
    return problems


def _too_alike(values: NDArray[np.float64]) -> str:
    """Why numbers cannot be learned as they are: in float32 they are nearly one, as milliseconds since 1970 are."""
    apart = np.std(values)
    if not np.abs(values.astype(np.float32) - values).max(initial=0.0) > _ROUNDED * apart > 0:
        return ""
    return (
        f"has numbers about {np.mean(values):.3g} that differ by about {apart:.3g}, too little to tell them apart in "
        "32 bits: subtract a constant from all of them, the same at every site"
    )


def _told(column: Read) -> str:
    """The column as its schema has it, on one line."""
    found = column.model_dump(exclude_defaults=True, exclude={"column", "missing"})
    return ", ".join(f"{key} = {value_text(value)}" for key, value in found.items())


def _range(column: Any) -> str:
    ends, unit = getattr(column, "range", None), getattr(column, "unit", "")
    return "" if ends is None else value_text(ends) + f" {unit}".rstrip()
