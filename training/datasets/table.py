"""A table in a file: columns to learn from, and a column to predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training.datasets.cells import check_filled, finite, groups_of
from dpeer.training.datasets.plain import PlainInputs, labels_of, table_of
from dpeer.training.datasets.pool import Data, Pool
from dpeer.training.schema.inputs import UnfittedSchema, raw_rows
from dpeer.training.schema.schema import read_schema
from dpeer.training.schema.sheet import Sheet, read_sheet

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
    columns = _columns(asked, sheet.header)
    hint = "; or leave out of columns= the column " if asked.columns else "; or leave it out with ignore="
    features = torch.from_numpy(table_of(sheet, columns, hint))
    classes = () if asked.regression else asked.classes or _classes(asked, sheet)
    inputs = PlainInputs(asked.target, classes, columns, asked.group)
    targets = labels_of(sheet, inputs)
    groups, stretches = (None, None) if asked.group is None else groups_of(sheet, asked.group)
    found = {} if asked.columns else {"columns": columns}
    if not asked.regression and not asked.classes:
        found["classes"] = classes
    return Data(
        Pool(features, targets, groups, stretches),
        None,
        len(classes) or None,
        None if groups is None else "group",
        whole_groups=groups is not None,
        names={"input columns": columns, "classes": classes},
        found=found,
        unfitted=inputs,
    )


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
    if schema.group is not None and schema.group not in sheet.header:
        raise UnknownName("column of kind group", schema.group, sheet.header, repr(asked.path))
    if schema.target.column not in sheet.header:
        raise UnknownName("target column", schema.target.column, sheet.header, repr(asked.path))
    raw, targets, remarks = raw_rows(schema, sheet, labels=True)
    assert targets is not None, "they were asked for"
    groups, stretches = (None, None) if schema.group is None else groups_of(sheet, schema.group)
    return Data(
        Pool(raw, targets, groups, stretches),
        None,
        len(schema.target.classes) or None,
        None if groups is None else "group",
        whole_groups=groups is not None,
        names={"classes": schema.target.classes},
        unfitted=UnfittedSchema(schema, remarks),
    )


def _columns(asked: Table, header: Sequence[str]) -> tuple[str, ...]:
    """The columns to learn from, by name: the order of a peer's own file means nothing."""
    group = () if asked.group is None else (asked.group,)
    chosen = asked.columns or ()
    for option, names in (("target", (asked.target,)), ("group", group), ("ignore", asked.ignore), ("columns", chosen)):
        for name in names:
            if name not in header:
                raise UnknownName(f"column of {option}=", name, header, repr(asked.path))
    used = (asked.target, *group, *asked.ignore)
    if twice := next((name for name in (*used, *chosen) if (*used, *chosen).count(name) > 1), None):
        raise TaskError(
            f"task {TASK!r}: column {twice!r} can be one of target=, group=, ignore= and columns= only, and once"
        )
    if chosen:
        return tuple(sorted(chosen))
    found = [name for name in header if name not in used]
    if "" in found:
        raise TaskError(
            f"task {TASK!r}: {asked.path!r}, column {header.index('') + 1} has no name: name it, "
            "or leave it out with ignore=[''] (is it a row number?)"
        )
    if not found:
        raise TaskError(f"task {TASK!r}: {asked.path!r} has no column to learn from besides {', '.join(used)}")
    return tuple(sorted(found))


def _classes(asked: Table, sheet: Sheet) -> tuple[str, ...]:
    """The classes that occur: by value where all are numbers, else by name."""
    check_filled(sheet, asked.target)
    cells = sheet.cells[asked.target]
    names = sorted(set(cells))
    if len(names) < 2:
        raise TaskError(
            f"task {TASK!r}: {asked.path!r} shows one class only ({names[0]!r} in column {asked.target!r}): "
            "name all there are with classes=A,B"
        )
    if len(names) > 20 and 2 * len(names) > len(cells):
        raise TaskError(
            f"task {TASK!r}: {asked.path!r}, column {asked.target!r} has {len(names)} classes in {len(cells)} rows: "
            "is it a number to predict? then kind=regression"
        )
    return tuple(sorted(names, key=float) if all(finite(name) for name in names) else names)
