"""Data of the csv task: raw rows and labels of a table, by a schema or by options; inputs are made after the split."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import Field

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training.data.holdout import numbered
from dpeer.training.data.pool import Data, Pool
from dpeer.training.data.tables.check import Checked, check
from dpeer.training.data.tables.prepare import raw_rows
from dpeer.training.data.tables.readings import as_number, is_code, spelled
from dpeer.training.data.tables.schema import MISSING, PlainSchema, read_schema
from dpeer.training.data.tables.sheet import Sheet, read_sheet
from dpeer.training.keyword_options import Names, Text

TASK = "csv"
_ADVICE = (
    "; a schema reads gaps, codes, words and dates (`dpeer schema init`), or leave the column out (ignore=, columns=)"
)


def table(
    *,
    path: Text,
    schema: str | None = None,
    target: Text | None = None,
    group: Text | None = None,
    kind: Literal["classification", "regression"] | None = None,
    classes: Annotated[Names, Field(min_length=2)] | None = None,
    ignore: Names | None = None,
    columns: Annotated[Names, Field(min_length=1)] | None = None,
) -> Data:
    """Read a table; it is prepared once it is known which rows are for training.

    Args:
        path: A csv or parquet file.
        schema: A schema.toml, which says all that follows; None without one.
        target: The column to predict.
        group: The column that says which rows belong together (a patient, a device, ...); None for no such column.
        kind: Whether a class or a number is predicted; a class if None.
        classes: The classes in the order of their numbers; those that occur, sorted, if None.
        ignore: Columns to leave out.
        columns: The columns to learn from, which are numbers; all that are nothing else, if None.

    Raises:
        TaskError: The file is missing, or does not fit; the message names column and rows.
        UnknownName: A column that was asked for is not there.
        ConfigurationError: The schema cannot be used.
    """
    said = {"target": target, "group": group, "kind": kind, "classes": classes, "columns": columns, "ignore": ignore}
    if schema is not None and (twice := next((name for name, value in said.items() if value), None)):
        raise TaskError(f"task {TASK!r}: the schema {schema!r} says it: leave out --task-option {twice}")
    if schema is None and target is None:
        raise TaskError(f"task {TASK!r} needs --task-option target=COLUMN, the column to predict, or --schema FILE")
    if kind == "regression" and classes:
        raise TaskError(f"task {TASK!r}: classes= is for kind=classification; leave it out")
    sheet = read_sheet(path)
    read = _schema(sheet, said) if schema is None else read_schema(schema)
    rows = check(read, sheet).accepted(_ADVICE if read.plain else "; `dpeer schema check` lists all")
    names = {"classes": read.target.classes}
    found: dict[str, tuple[str, ...]] = {}
    if read.plain:
        names["input columns"] = tuple(read.inputs)
        found = {} if columns else {"columns": tuple(read.inputs)}
        found |= {"classes": read.target.classes} if read.target.classes and not classes else {}
    groups = None if read.group is None else sheet.cells[read.group]
    return Data(
        Pool(
            torch.from_numpy(raw_rows(rows)),
            torch.from_numpy(rows.labels),
            None if groups is None else np.array(groups),
            None if groups is None else numbered(groups),
        ),
        None,
        len(read.target.classes) or None,
        None if groups is None else "group",
        whole_groups=groups is not None,
        names=names,
        found=found,
        remarks=(*_about(rows), *rows.remarks),
        schema=read,
    )


def _schema(sheet: Sheet, said: Mapping[str, Any]) -> PlainSchema:
    """The schema that options make: numbers as they are, and the classes that are named or occur."""
    target, grouping = said["target"], [] if said["group"] is None else [said["group"]]
    roles = {"target": [target], "group": grouping, **{name: said[name] or [] for name in ("ignore", "columns")}}
    kinds = dict.fromkeys(_columns(sheet, roles), "number") | dict.fromkeys(grouping, "group")
    classes = {} if said["kind"] == "regression" else {"classes": said["classes"] or _classes(sheet, target)}
    return PlainSchema.of({"column": target, "kind": said["kind"] or "classification", **classes}, kinds)


_LISTED = 12

_ROW_NUMBERS = re.compile(r"|unnamed: \d+|__index_level_\d+__|index_level_\d+", re.IGNORECASE)
"""Names under which pandas, R and parquet write the numbers of rows."""


def _about(rows: Checked) -> tuple[str, ...]:
    """Lines on what a table was read as: classes with their rows, inputs, and columns that are none."""
    sheet, schema = rows.sheet, rows.schema
    target, columns = schema.target.column, [*schema.inputs]
    places = dict(zip(sheet.cells[target], rows.columns[target].values.tolist(), strict=True))
    counts = []
    for number, (name, count) in enumerate(rows.classes.items()):
        others = sorted(repr(cell) for cell, place in places.items() if place == number and cell != name)
        counts.append(f"{name} {count}" + (f" (also written {', '.join(others)})" if others else ""))
    predicted = f"classes of {target}: {_some(counts)}" if counts else f"{target} is a number to predict"
    left_out = [name for name in sheet.header if name not in {target, schema.group, *columns}]
    return (
        f"{len(sheet)} rows in {Path(sheet.path).name}; {predicted}",
        f"{len(columns)} input{'s' * (len(columns) > 1)}: {_some(columns)}"
        + (f"; left out: {_some(left_out)}" if left_out else ""),
    )


def _some(names: Sequence[str]) -> str:
    shown = [name or "(no name)" for name in names[:_LISTED]]
    return ", ".join(shown) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _columns(sheet: Sheet, roles: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The columns to learn from; `roles` are the columns that each option names."""
    header = sheet.header
    for option, names in roles.items():
        for name in names:
            if name not in sheet.cells:
                raise UnknownName(f"column of {option}=", name, header, repr(sheet.path))
    used = [name for names in roles.values() for name in names]
    if twice := next((name for name, count in Counter(used).items() if count > 1), None):
        raise TaskError(
            f"task {TASK!r}: column {twice!r} can be one of target=, group=, ignore= and columns= only, and once"
        )
    if roles["columns"]:
        return roles["columns"]
    numbering = {name for name in header if _ROW_NUMBERS.fullmatch(name) and name not in used}
    if "" in numbering and not _counts_rows(sheet.cells[""]):
        raise TaskError(
            f"task {TASK!r}: {sheet.path!r}, column {header.index('') + 1} has no name: name it, "
            "or leave it out with ignore=['']"
        )
    found = [name for name in header if name not in {*used, *numbering}]
    if not found:
        raise TaskError(f"task {TASK!r}: {sheet.path!r} has no column to learn from besides {', '.join(used)}")
    return found


def _counts_rows(cells: Sequence[str]) -> bool:
    """Whether cells are the numbers of the rows, from 0 or from 1."""
    return any(list(cells) == [str(row + first) for row in range(len(cells))] for first in (0, 1))


def _classes(sheet: Sheet, target: str) -> tuple[str, ...]:
    """The classes that occur: by value where all are numbers, else by name."""
    cells = [cell for cell in sheet.cells[target] if cell and cell not in MISSING]
    names = sorted(set(spelled(cells).values()))
    if len(names) < 2:
        shown = f"one class only ({names[0]!r}" if names else "no class ("
        raise TaskError(f"task {TASK!r}: {sheet.path!r} shows {shown} in column {target!r}): name all with classes=A,B")
    if len(names) > 20 and 2 * len(names) > len(cells):
        raise TaskError(
            f"task {TASK!r}: {sheet.path!r}, column {target!r} has {len(names)} classes in {len(cells)} rows: "
            "is it a number to predict? then kind=regression"
        )
    plain = all(as_number(name) is not None and not is_code(name) for name in names)
    return tuple(sorted(names, key=float) if plain else names)
