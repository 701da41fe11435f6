"""Data sets of the csv task: a table in a file, with a schema or without."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.tables.inputs import Raw, TableInputs
from dpeer.training.data.tables.numerals import Spellings, as_number, is_code, spelled
from dpeer.training.data.tables.plain import PlainInputs, check_filled, groups_of
from dpeer.training.data.tables.schema import read_schema
from dpeer.training.data.tables.schema_inputs import SchemaInputs, UnfittedSchema
from dpeer.training.data.tables.sheet import Sheet, read_sheet

TASK = "csv"


class Table(NamedTuple):
    """A csv file and what its columns are.

    Attributes:
        path: The file.
        target: The column to predict.
        group: The column that says which rows belong together (a patient, a device, ...); None for no such column.
        regression: Whether the target is a number to predict, not a class.
        classes: The classes in the order of their numbers; those that occur, sorted, if None.
        ignore: Columns to leave out.
        columns: The columns to learn from; all that are nothing else, if None.
    """

    path: str
    target: str
    group: str | None = None
    regression: bool = False
    classes: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None


def table(asked: Table) -> Data:
    """Read a table; every column that is neither target nor group nor ignored must be of numbers.

    Raises:
        TaskError: The file is missing, or a cell is not what it must be; the message names row and column.
        UnknownName: A column that was asked for is not there.
    """
    sheet = read_sheet(asked.path, only_commas=True)
    columns, left_out = _columns(asked, sheet)
    hint = "; or leave out of columns= the column " if asked.columns else "; or leave it out with ignore="
    numbers = PlainInputs(asked.target, (), columns, asked.group).raw(sheet, labels=False, hint=hint, learn=True)
    classes = () if asked.regression else asked.classes or _classes(asked, sheet)
    inputs = PlainInputs(asked.target, classes, columns, asked.group)
    found = {} if asked.columns else {"columns": columns}
    if not asked.regression and not asked.classes:
        found["classes"] = classes
    raw, names = Raw(numbers.rows, inputs.labels(sheet)), {"input columns": columns, "classes": classes}
    return _data(sheet, raw, inputs, left_out, unfitted=inputs, names=names, found=found)


class SchemaTable(NamedTuple):
    """A file, and the schema that says what its columns are.

    Attributes:
        path: A csv or parquet file.
        schema: A schema.toml.
    """

    path: str
    schema: str


def table_by_schema(asked: SchemaTable) -> Data:
    """Read a table as a schema says; it is prepared once it is known which rows are for training.

    Raises:
        TaskError: The file is missing, lacks a column, or has a cell that cannot be read.
        ConfigurationError: The schema cannot be used.
    """
    schema = read_schema(asked.schema)
    sheet = read_sheet(asked.path)
    if schema.group is not None and schema.group not in sheet.cells:
        raise UnknownName("column of kind group", schema.group, sheet.header, repr(asked.path))
    if schema.target.column not in sheet.cells:
        raise UnknownName("target column", schema.target.column, sheet.header, repr(asked.path))
    inputs = SchemaInputs(schema, {})
    raw = inputs.raw(sheet, labels=True)
    used = {schema.target.column, schema.group, *schema.inputs}
    left_out = [name for name in sheet.header if name not in used]
    unfitted, names = UnfittedSchema(schema, raw.remarks), {"classes": schema.target.classes}
    return _data(sheet, raw, inputs, left_out, unfitted=unfitted, names=names)


def _data(sheet: Sheet, raw: Raw, inputs: TableInputs, left_out: Sequence[str], **fields: Any) -> Data:
    """A table as a data set; whole groups stay together."""
    assert raw.labels is not None, "asked for"
    groups, stretches = (None, None) if inputs.group is None else groups_of(sheet, inputs.group)
    return Data(
        Pool(raw.rows, raw.labels, groups, stretches),
        None,
        len(inputs.classes) or None,
        None if groups is None else "group",
        whole_groups=groups is not None,
        remarks=_about(sheet, inputs.target, inputs.classes, inputs.columns, left_out),
        **fields,
    )


_LISTED = 12

_ROW_NUMBERS = re.compile(r"|unnamed: \d+|__index_level_\d+__|index_level_\d+", re.IGNORECASE)
"""Names under which pandas, R and parquet write the numbers of rows."""


def _about(
    sheet: Sheet, target: str, classes: Sequence[str], columns: Sequence[str], left_out: Sequence[str]
) -> tuple[str, ...]:
    """Lines on what a table was read as: classes with their rows, inputs, and columns that are none."""
    lines = []
    if classes:
        spellings, found = Spellings(classes, sheet.cells[target]), Counter(sheet.cells[target])
        rows: dict[int | None, Counter[str]] = {}
        for cell, count in found.items():
            rows.setdefault(spellings.place(cell), Counter())[cell] += count
        counts = []
        for place, name in enumerate(classes):
            cells = rows.get(place, Counter())
            others = sorted(map(repr, cells.keys() - {name}))
            counts.append(f"{name} {sum(cells.values())}" + (f" (also written {', '.join(others)})" if others else ""))
        lines.append(f"{len(sheet)} rows in {Path(sheet.path).name}; classes of {target}: {_some(counts)}")
    else:
        lines.append(f"{len(sheet)} rows in {Path(sheet.path).name}; {target} is a number to predict")
    lines.append(
        f"{len(columns)} input{'s' * (len(columns) > 1)}: {_some(columns)}"
        + (f"; left out: {_some(left_out)}" if left_out else "")
    )
    return tuple(lines)


def _some(names: Sequence[str]) -> str:
    shown = [name or "(no name)" for name in names[:_LISTED]]
    return ", ".join(shown) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _columns(asked: Table, sheet: Sheet) -> tuple[tuple[str, ...], list[str]]:
    """The columns to learn from, by name, and those that are left out: the order of a peer's own file means nothing."""
    header = sheet.header
    group = () if asked.group is None else (asked.group,)
    chosen = asked.columns or ()
    for option, names in (("target", (asked.target,)), ("group", group), ("ignore", asked.ignore), ("columns", chosen)):
        for name in names:
            if name not in sheet.cells:
                raise UnknownName(f"column of {option}=", name, header, repr(asked.path))
    used = (asked.target, *group, *asked.ignore)
    if twice := next((name for name, count in Counter((*used, *chosen)).items() if count > 1), None):
        raise TaskError(
            f"task {TASK!r}: column {twice!r} can be one of target=, group=, ignore= and columns= only, and once"
        )
    if chosen:
        return tuple(sorted(chosen)), [name for name in header if name not in {*used, *chosen}]
    numbering = {name for name in header if _ROW_NUMBERS.fullmatch(name) and name not in used}
    if "" in numbering and not _counts_rows(sheet.cells[""]):
        raise TaskError(
            f"task {TASK!r}: {asked.path!r}, column {header.index('') + 1} has no name: name it, "
            "or leave it out with ignore=['']"
        )
    apart = {*used, *numbering}
    found = [name for name in header if name not in apart]
    if not found:
        raise TaskError(f"task {TASK!r}: {asked.path!r} has no column to learn from besides {', '.join(used)}")
    return tuple(sorted(found)), [name for name in header if name in numbering or name in asked.ignore]


def _counts_rows(cells: Sequence[str]) -> bool:
    """Whether cells are the numbers of the rows, from 0 or from 1."""
    return any(list(cells) == [str(row + first) for row in range(len(cells))] for first in (0, 1))


def _classes(asked: Table, sheet: Sheet) -> tuple[str, ...]:
    """The classes that occur: by value where all are numbers, else by name."""
    check_filled(sheet, asked.target)
    cells = sheet.cells[asked.target]
    names = sorted(set(spelled(cells).values()))
    if len(names) < 2:
        raise TaskError(
            f"task {TASK!r}: {asked.path!r} shows one class only ({names[0]!r} in column {asked.target!r}): "
            "name all with classes=A,B"
        )
    if len(names) > 20 and 2 * len(names) > len(cells):
        raise TaskError(
            f"task {TASK!r}: {asked.path!r}, column {asked.target!r} has {len(names)} classes in {len(cells)} rows: "
            "is it a number to predict? then kind=regression"
        )
    plain = all(as_number(name) is not None and not is_code(name) for name in names)
    return tuple(sorted(names, key=float) if plain else names)
