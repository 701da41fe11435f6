"""Check of a table against a schema: all cells that do not fit, by column and row; no torch."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpeer.training.data.duplicate_rows import count_equal, digests
from dpeer.training.data.tables.decode import Decoded, Verdict, decode
from dpeer.training.data.tables.numerals import ambiguous
from dpeer.training.data.tables.prepare import Layout
from dpeer.training.data.tables.schema import Category, Column, Date, Number, Schema, Target, YesNo
from dpeer.training.data.tables.sheet import Sheet

Cells = tuple[tuple[int, str], ...]
"""Rows' numbers as a spreadsheet shows them, with what stands there."""


@dataclass(frozen=True)
class Problem:
    """A mistake in a column.

    Attributes:
        column: Its name.
        what: The mistake, and what would be right.
        cells: Where; empty if it is the column as a whole.
    """

    column: str
    what: str
    cells: Cells = ()


@dataclass(frozen=True)
class Checked:
    """How a table fits.

    Attributes:
        rows: How many rows it has.
        problems: What does not fit.
        classes: Rows by class, in the classes' order; empty for numbers.
        missing: Gaps by column, where it has any.
        others: Cells that become `other` by column, and the words that are not known with their numbers.
        unknown: Columns of the table that the schema does not have; they are left out.
        groups: The number of groups; None without a group column.
        equal: How many rows equal another one in all columns that are learned from; 0 where something does not fit.
    """

    rows: int
    problems: tuple[Problem, ...]
    classes: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    groups: int | None = None
    equal: int = 0


def check(schema: Schema, sheet: Sheet) -> Checked:
    """Compare a table with a schema."""
    problems = _absent(schema, sheet, labels=True)
    wanted: dict[str, Column | Target] = {**schema.inputs, schema.target.column: schema.target}
    here = {name: column for name, column in wanted.items() if name in sheet.cells}
    found = {
        name: decode(column, sheet.cells[name], schema.missing, decimal=sheet.decimal) for name, column in here.items()
    }
    for name, column in here.items():
        problems += _problems(sheet, name, column, found[name])
    groups, group = None, schema.group
    if group is not None and group in sheet.header:
        groups = len({*sheet.cells[group]} - {""})
        if empty := _cells(sheet, group, [row for row, cell in enumerate(sheet.cells[group]) if not cell]):
            problems.append(Problem(group, "is empty: say whose row it is, or drop the row", empty))
    missing = {name: count for name, it in found.items() if (count := it.count(Verdict.GAP))}
    missing.pop(schema.target.column, None)  # a problem, reported as one
    equal = 0 if problems else count_equal(digests(Layout.of(schema).raw(sheet.cells, sheet.decimal)[0]))
    return Checked(
        len(sheet), tuple(problems), _by_class(schema, found), missing, _others(sheet, found),
        tuple(name for name in sheet.header if name not in wanted and name not in schema.columns), groups,
        equal,
    )  # fmt: skip


def _absent(schema: Schema, sheet: Sheet, *, labels: bool) -> list[Problem]:
    """Columns that the schema has and the table has not."""
    needed = dict.fromkeys([*schema.inputs, *([schema.target.column] if labels else [])])
    if labels and schema.group is not None:
        needed[schema.group] = None
    found = []
    for name in needed:
        if name not in sheet.cells:
            near = difflib.get_close_matches(name, [other for other in sheet.header if other not in needed], 1, 0.5)
            found.append(Problem(name, "is not in the file" + (f" (is it the column {near[0]!r}?)" if near else "")))
    return found


def _problems(sheet: Sheet, name: str, column: Column | Target, found: Decoded) -> list[Problem]:
    problems = []
    wrong, beyond = found.rows(Verdict.WRONG), found.rows(Verdict.BEYOND)
    double = [row for row in wrong.tolist() if _double(column, sheet, name, row)]
    if double:
        readings = " or ".join(ambiguous(sheet.cells[name][double[0]], sheet.decimal) or ())
        problems.append(
            Problem(name, f"can be read in two ways ({readings}): {_NO_THOUSANDS}", _cells(sheet, name, double))
        )
    if rest := sorted({*wrong.tolist()} - {*double}):
        problems.append(Problem(name, f"expected {expected(column)}", _cells(sheet, name, rest)))
    if len(beyond):
        problems.append(Problem(name, f"outside the range {_range(column)}", _cells(sheet, name, beyond.tolist())))
    if isinstance(column, Target) and len(empty := found.rows(Verdict.GAP)):
        what = "a row without it teaches nothing: fill it or drop the row"
        problems.append(Problem(name, what, _cells(sheet, name, empty.tolist())))
    return problems


_NO_THOUSANDS = "write numbers without marks for thousands"


def _double(column: Column | Target, sheet: Sheet, name: str, row: int) -> bool:
    """Whether the cell of a column of numbers can be read as two numbers."""
    is_number = isinstance(column, Number) or (isinstance(column, Target) and column.kind == "regression")
    return is_number and ambiguous(sheet.cells[name][row], sheet.decimal) is not None


def _cells(sheet: Sheet, name: str, rows: list[int]) -> Cells:
    return tuple((sheet.places[row], sheet.cells[name][row]) for row in rows)


def _by_class(schema: Schema, found: Mapping[str, Decoded]) -> dict[str, int]:
    target = found.get(schema.target.column)
    if target is None:
        return {}
    return {name: int((target.values == number).sum()) for number, name in enumerate(schema.target.classes)}


def _others(sheet: Sheet, found: Mapping[str, Decoded]) -> dict[str, dict[str, int]]:
    counted = {}
    for name, decoded in found.items():
        if len(rows := decoded.rows(Verdict.OTHER)):
            counted[name] = dict(Counter(sheet.cells[name][row] for row in rows).most_common())
    return counted


def expected(column: Column | Target) -> str:
    """What a cell of a column must be, for messages."""
    match column:
        case Date():
            short = any("%y" in one for one in column.format)
            century = ", in one century of the range" if short else ""
            return f"a date as {' or '.join(column.format)}{century}"
        case YesNo():
            return f"yes ({', '.join(column.yes)}) or no ({', '.join(column.no)})"
        case Category():
            return f"one of {', '.join(column.values)}"
        case Target(kind="classification"):
            return f"one of the classes {', '.join(column.classes)}"
        case _:
            return "a number" if getattr(column, "range", None) is None else f"a number, {_range(column)}"


def _range(column: Column | Target) -> str:
    if isinstance(column, Date) and column.range is not None:
        return f"{column.range[0]} to {column.range[1]}"
    if isinstance(column, Number | Target) and column.range is not None:
        unit = f" {column.unit}" if column.unit else ""
        return f"{column.range[0]:g} to {column.range[1]:g}{unit}"
    return ""


def missing_columns(schema: Schema, sheet: Sheet, *, labels: bool) -> str:
    """One line on the columns that are not in the table; empty if all are there."""
    return "; ".join(f"column {problem.column!r} {problem.what}" for problem in _absent(schema, sheet, labels=labels))


def unreadable(schema: Schema, sheet: Sheet, found: Mapping[str, Decoded]) -> str:
    """One line on the first cell that cannot be read, and on the number of others; empty if all can."""
    wrong = {name: rows for name, it in found.items() if len(rows := it.rows(Verdict.WRONG))}
    if not wrong:
        return ""
    name = min(wrong, key=lambda name: wrong[name][0])
    column = schema.target if name == schema.target.column else schema.inputs[name]
    ((place, cell),) = _cells(sheet, name, [int(wrong[name][0])])
    more = sum(map(len, wrong.values())) - 1
    rest = f"; {more} more cells do not fit" if more else ""
    shown = repr(cell) if cell else "nothing"
    if _double(column, sheet, name, int(wrong[name][0])):
        readings = " or ".join(ambiguous(cell, sheet.decimal) or ())
        shown += f", which may be {readings} ({_NO_THOUSANDS})"
    return (
        f"{sheet.path!r}, row {place}, column {name!r}: expected {expected(column)}, not {shown}{rest} "
        "(`dpeer schema check` lists all)"
    )


def remarks(schema: Schema, sheet: Sheet, found: Mapping[str, Decoded]) -> tuple[str, ...]:
    """Sentences on cells that did not fit and are read all the same."""
    lines = []
    for name, decoded in found.items():
        if count := decoded.count(Verdict.BEYOND):
            words = "value lies" if count == 1 else "values lie"
            lines.append(
                f"{count} {words} outside the range of {name!r}, {_range(schema.inputs[name])}: cut to its nearer end"
            )
        if count := decoded.count(Verdict.OTHER):
            known = _others(sheet, {name: decoded})[name]
            first = ", ".join(map(repr, [*known][:3])) + (", ..." if len(known) > 3 else "")
            lines.append(f"{count} of {len(sheet)} values of {name!r} are not in the schema and become other: {first}")
    return tuple(lines)
