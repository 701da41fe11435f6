"""A table in a csv file: numbers to learn from, and a column to predict."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dpeer.exceptions import TaskError, UnknownName
from dpeer.training.datasets.pool import Data, Numbers, Pool
from dpeer.training.errors import describe

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
    header, rows, places = _cells(asked.path)
    columns = _columns(asked, header)
    cells = dict(zip(header, zip(*rows, strict=True), strict=True))
    hint = "; or leave out of columns= the column " if asked.columns else "; or leave it out with ignore="
    features = np.empty((len(rows), len(columns)), np.float32)
    for number, name in enumerate(columns):
        features[:, number] = _numbers(asked.path, name, cells[name], places, hint)
    classes: tuple[str, ...] = ()
    count: int | None = None
    if asked.regression:
        targets = torch.from_numpy(_numbers(asked.path, asked.target, cells[asked.target], places)).unsqueeze(1)
    else:
        classes = asked.classes or _classes(asked, cells[asked.target], places)
        targets = torch.from_numpy(_class_numbers(asked, classes, cells[asked.target], places))
        count = len(classes)
    groups: Numbers | None = None
    if asked.group is not None:
        _check_filled(asked.path, asked.group, cells[asked.group], places)
        groups = np.unique(np.array(cells[asked.group]), return_inverse=True)[1].astype(np.int64)
    pool = Pool(torch.from_numpy(features), targets, groups, groups)
    names = {"input columns": tuple(columns), "classes": classes}
    found = {} if asked.columns else {"columns": tuple(columns)}
    if not asked.regression and not asked.classes:
        found["classes"] = classes
    return Data(pool, None, count, None if groups is None else "group", names=names, found=found)


def _cells(path: str) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, rows that are not blank, and their numbers as a spreadsheet shows them (the header is row 1)."""
    rows, places = [], []
    try:
        with Path(path).expanduser().open(encoding="utf-8-sig", newline="") as file:
            for place, row in enumerate(csv.reader(file, strict=True), start=1):
                cells = [cell.strip() for cell in row]
                if any(cells):
                    rows.append(cells)
                    places.append(place)
    except FileNotFoundError as error:
        raise TaskError(f"task {TASK!r}: there is no file {path!r}") from error
    except IsADirectoryError as error:
        raise TaskError(f"task {TASK!r}: {path!r} is a folder; expected a csv file") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"task {TASK!r}: {path!r} is not UTF-8 text: save it as 'CSV UTF-8'") from error
    except csv.Error as error:
        raise TaskError(f"task {TASK!r}: {path!r} is no valid csv after row {len(rows)}: {error}") from error
    except OSError as error:
        raise TaskError(f"task {TASK!r}: {path!r} cannot be read: {describe(error)}") from error
    if len(rows) < 2:
        raise TaskError(f"task {TASK!r}: {path!r} has no rows; expected a header and rows of numbers under it")
    header = rows[0]
    if len(header) == 1 and (other := next((mark for mark in ";\t|" if mark in header[0]), None)):
        raise TaskError(f"task {TASK!r}: {path!r} is divided by {other!r}: save it with commas (and points in numbers)")
    for row, place in zip(rows, places, strict=True):
        if len(row) != len(header):
            raise TaskError(
                f"task {TASK!r}: {path!r}, row {place} has {len(row)} cells, the header {len(header)}; "
                "text with a comma in it needs quotes"
            )
    return header, rows[1:], places[1:]


def _columns(asked: Table, header: list[str]) -> list[str]:
    """The columns to learn from, by name: the order of a peer's own file means nothing."""
    double = next((name for place, name in enumerate(header) if name in header[:place]), None)
    if double is not None:
        raise TaskError(f"task {TASK!r}: {asked.path!r} has two columns {double!r}: name one otherwise")
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
        return sorted(chosen)
    found = [name for name in header if name not in used]
    if "" in found:
        raise TaskError(
            f"task {TASK!r}: {asked.path!r}, column {header.index('') + 1} has no name: name it, "
            "or leave it out with ignore=[''] (is it a row number?)"
        )
    if not found:
        raise TaskError(f"task {TASK!r}: {asked.path!r} has no column to learn from besides {', '.join(used)}")
    return sorted(found)


def _check_filled(path: str, name: str, cells: Sequence[str], places: list[int]) -> None:
    if "" in cells:
        place = places[cells.index("")]
        raise TaskError(f"task {TASK!r}: {path!r}, row {place}, column {name!r} is empty: fill it or drop the row")


def _numbers(path: str, name: str, cells: Sequence[str], places: list[int], hint: str = "") -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):
            found = np.fromiter(map(float, cells), np.float64, len(cells)).astype(np.float32)
        if np.isfinite(found).all():
            return found
    except ValueError:
        pass
    place, cell = next((place, cell) for place, cell in zip(places, cells, strict=True) if not _finite(cell))
    advice = f"{hint}{name}" if hint else ""
    if not cell:
        raise TaskError(
            f"task {TASK!r}: {path!r}, row {place}, column {name!r} is empty: fill it or drop the row{advice}"
        )
    if _finite(cell, np.float64):
        raise TaskError(
            f"task {TASK!r}: {path!r}, row {place}, column {name!r}: {cell!r} does not fit float32, which ends at "
            f"{np.finfo(np.float32).max:.2g}: give the column in another unit{advice}"
        )
    raise TaskError(
        f"task {TASK!r}: {path!r}, row {place}, column {name!r}: expected a finite number, not {cell!r}{advice}"
    )


def _finite(cell: str, kind: type[np.floating[Any]] = np.float32) -> bool:
    """Whether it is a number that this type has."""
    try:
        with np.errstate(over="ignore"):
            return bool(np.isfinite(kind(float(cell))))
    except ValueError:
        return False


def _classes(asked: Table, cells: Sequence[str], places: list[int]) -> tuple[str, ...]:
    """The classes that occur: by value where all are numbers, else by name."""
    _check_filled(asked.path, asked.target, cells, places)
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
    return tuple(sorted(names, key=float) if all(_finite(name) for name in names) else names)


def _class_numbers(asked: Table, classes: tuple[str, ...], cells: Sequence[str], places: list[int]) -> Numbers:
    numbers = {name: number for number, name in enumerate(classes)}
    for cell, place in zip(cells, places, strict=True):
        if cell not in numbers:
            raise TaskError(
                f"task {TASK!r}: {asked.path!r}, row {place}, column {asked.target!r}: {cell!r} is none of the classes "
                f"{', '.join(classes)}"
            )
    return np.array([numbers[cell] for cell in cells], np.int64)
