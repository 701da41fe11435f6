"""The cells of a table in a file, as text by column: csv, or parquet where pyarrow is installed. No torch."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from pathlib import Path
from typing import Any, TextIO

from dpeer.encoding import encoding_of
from dpeer.exceptions import TaskError
from dpeer.extras import check_libraries
from dpeer.training.schema.kinds import composed
from dpeer.training.schema.numerals import decimal_mark

PARQUET = (".parquet", ".pq")
_NAMED = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
"""The marks that divide cells."""

_SEP = re.compile(r'"?sep=([,;\t|])"?', re.IGNORECASE)
"""The first line by which Excel learns the mark; it is no header."""


@dataclass(frozen=True)
class Sheet:
    """A table as text.

    Attributes:
        path: The file, for messages.
        header: The columns' names in the file's order, each once.
        cells: By column, a text for each row, without blanks around it; empty for a gap.
        places: Each row's number as a spreadsheet shows it (the header is row 1); from 1 in a parquet file.
        decimal: The decimal mark of numbers; "" where the cells do not tell (`numerals.decimal_mark`).
    """

    path: str
    header: tuple[str, ...]
    cells: Mapping[str, Sequence[str]]
    places: Sequence[int]
    decimal: str = "."

    def __len__(self) -> int:
        return len(self.places)


def read_sheet(path: str, *, only_commas: bool = False) -> Sheet:
    """Read a csv file (UTF-8 with a header; divided by commas, semicolons or tabs), or a parquet file.

    Args:
        path: The file; it is parquet if it ends in .parquet or .pq.
        only_commas: Refuse a csv file that is divided by anything else.

    Raises:
        TaskError: The file is missing or damaged, or has no rows, or two columns of one name.
        ConfigurationError: It is parquet, and pyarrow is not installed.
    """
    place = Path(path).expanduser()
    if place.suffix.lower() in PARQUET:
        return _parquet(path, place)
    rows, places, mark = _rows(path, place, only_commas)
    header = rows[0]
    _check_header(path, header)
    for row, number in zip(rows, places, strict=True):
        if len(row) != len(header):
            raise TaskError(
                f"{path!r}, row {number} has {len(row)} cells, the header {len(header)}; "
                f"text with {_NAMED[mark]} in it needs quotes"
            )
    columns = zip(*rows[1:], strict=True)
    decimal = "." if mark == "," else decimal_mark(cell for row in rows[1:] for cell in row)
    return Sheet(path, tuple(header), dict(zip(header, columns, strict=True)), places[1:], decimal)


def _rows(path: str, place: Path, only_commas: bool) -> tuple[list[list[str]], list[int], str]:
    """Header and rows but for empty ones at the end, their numbers, and the mark that divides cells."""
    rows: list[list[str]] = []
    places: list[int] = []
    try:
        with place.open(encoding=encoding_of(place), newline="") as file:
            stated = _SEP.fullmatch(file.readline().strip())
            if stated is None:
                file.seek(0)
            mark = stated[1] if stated is not None else _divided_by(file)
            if only_commas and mark != ",":
                raise TaskError(f"{path!r} is divided by {mark!r}: save it with commas (and points in numbers)")
            begun = 1 if stated is None else 2
            for number, row in enumerate(csv.reader(file, delimiter=mark, strict=True), start=begun):
                cells = [composed(cell) for cell in row]
                # A row of nothing but gaps can be predicted; blank lines, and what is above the header, are no rows.
                if any(cells) or (rows and len(cells) == len(rows[0])):
                    rows.append(cells)
                    places.append(number)
    except FileNotFoundError as error:
        raise TaskError(f"there is no file {path!r}") from error
    except IsADirectoryError as error:
        raise TaskError(f"{path!r} is a folder; expected a csv or parquet file") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{path!r} is not UTF-8 text{_likely(place)}: save it as 'CSV UTF-8'") from error
    except csv.Error as error:
        raise TaskError(f"{path!r} is no valid csv after row {len(rows)}: {error}") from error
    except OSError as error:
        raise TaskError(f"{path!r} cannot be read: {error.strerror}") from error
    while rows and not any(rows[-1]):  # spreadsheets leave such rows behind
        rows.pop()
        places.pop()
    if len(rows) < 2:
        raise TaskError(f"{path!r} has no rows; expected a header and rows under it")
    return rows, places, mark


_BEGINNINGS = {
    b"PK": "it is a zip archive, as .xlsx files are",
    b"\xd0\xcf\x11\xe0": "it is an old Excel file (.xls)",
    b"\x1f\x8b": "it is packed by gzip",
    b"%PDF": "it is a PDF",
    b"PAR1": "it is parquet: name it .parquet",
    b"SQLite": "it is a database",
}


def _likely(path: Path) -> str:
    """What a file that is no text most likely is, by its first bytes; empty if nothing is known of them."""
    with path.open("rb") as file:
        first = file.read(8)
    found = next((what for begins, what in _BEGINNINGS.items() if first.startswith(begins)), "")
    return f" ({found})" if found else ""


def _divided_by(file: TextIO) -> str:
    """The mark that divides the cells of a csv file: a comma, or the one that gives its header more cells.

    A mark within quotes divides nothing.
    """
    cells = {}
    for mark in _NAMED:
        try:
            cells[mark] = len(next(csv.reader(file, delimiter=mark, strict=True), []))
        except csv.Error:  # quotes that do not end a cell
            cells[mark] = 0
        finally:
            file.seek(0)
    return max(_NAMED, key=lambda mark: cells[mark])


def _check_header(path: str, header: Sequence[str]) -> None:
    double = next((name for name, count in Counter(header).items() if count > 1), None)
    if double is not None:
        raise TaskError(f"{path!r} has two columns {double!r}: name one otherwise")


def _parquet(path: str, place: Path) -> Sheet:
    check_libraries(f"reading {path!r}", "parquet", **{"pyarrow.parquet": "pyarrow"})
    import pyarrow.parquet as parquet

    if not place.is_file():
        raise TaskError(f"there is no file {path!r}")
    try:
        content = parquet.read_table(place)
        columns = [[_text(value) for value in column.to_pylist()] for column in content.columns]
    except Exception as error:  # pyarrow raises many kinds
        raise TaskError(f"{path!r} cannot be read as parquet: {' '.join(str(error).split())[:200]}") from error
    header = tuple(name.strip() for name in content.column_names)
    if not content.num_rows or not header:
        raise TaskError(f"{path!r} has no rows; expected columns with names, and rows")
    _check_header(path, header)
    return Sheet(path, header, dict(zip(header, columns, strict=True)), range(1, content.num_rows + 1))


def _text(value: Any) -> str:
    """A value as csv files have it; whole numbers that became floats because of gaps are written whole again."""
    if value is None or value != value:
        return ""
    if isinstance(value, datetime) and value.time() == time(0):
        return value.date().isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value).strip()
