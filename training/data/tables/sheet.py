"""Reader of table files into columns of text: csv, or parquet where pyarrow is installed; no torch."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any, TextIO

from dpeer.encoding import encoding_of
from dpeer.exceptions import TaskError
from dpeer.optional_libraries import check_libraries
from dpeer.training.data.tables.readings import decimal_mark
from dpeer.training.data.tables.schema import HIDDEN, composed

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
        hidden: By column, from how many cells invisible signs were taken off.
    """

    path: str
    header: tuple[str, ...]
    cells: Mapping[str, Sequence[str]]
    places: Sequence[int]
    decimal: str = "."
    hidden: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.places)

    def without(self, places: Collection[int]) -> Sheet:
        """The table without these rows."""
        kept = [row for row, place in enumerate(self.places) if place not in places]
        cells = {name: [column[row] for row in kept] for name, column in self.cells.items()}
        return replace(self, cells=cells, places=[self.places[row] for row in kept])


def read_sheet(path: str) -> Sheet:
    """Read a csv file (UTF-8 with a header; divided by commas, semicolons, tabs or bars), or a .parquet or .pq file.

    Raises:
        TaskError: The file is missing or damaged, or has no rows, or two columns of one name.
        ConfigurationError: It is parquet, and pyarrow is not installed.
    """
    place = Path(path).expanduser()
    if place.suffix.lower() in (".parquet", ".pq"):
        return _parquet(path, place)
    rows, places, mark, hidden = _rows(path, place)
    header = rows[0]
    _check_widths(path, rows, places, mark)
    _check_header(path, header)
    columns = zip(*rows[1:], strict=True)
    decimal = "." if mark == "," else decimal_mark(cell for row in rows[1:] for cell in row)
    cells = dict(zip(header, columns, strict=True))
    return Sheet(path, tuple(header), cells, places[1:], decimal, {header[place]: hidden[place] for place in hidden})


def _check_widths(path: str, rows: Sequence[Sequence[str]], places: Sequence[int], mark: str) -> None:
    """Refuse rows that are not as long as the header, with the likeliest cause."""
    header, width = rows[0], len(rows[0])
    number, row = next((one for one in zip(places, rows, strict=True) if len(one[1]) != width), (0, header))
    if header[0].startswith("#") and (number or width == 1):
        raise TaskError(f"{path!r} begins with a comment, {header[0][:40]!r}: the first line must be the header")
    if not number:
        return
    if all(len(row) == width + 1 and not row[-1] for row in rows[1:]):
        raise TaskError(f"{path!r}: each row ends with {_NAMED[mark]} and the header does not: take it off the rows")
    raise TaskError(
        f"{path!r}, row {number} has {len(row)} cells, the header {width}; text with {_NAMED[mark]} in it needs quotes"
    )


def _rows(path: str, place: Path) -> tuple[list[list[str]], list[int], str, Counter[int]]:
    """Header and rows but for empty ones at the end, their numbers, the mark, and hidden signs by a column's place."""
    rows: list[list[str]] = []
    places: list[int] = []
    hidden: Counter[int] = Counter()
    try:
        _check_kind(path, place, is_parquet=False)
        with place.open(encoding=encoding_of(place), newline="") as file:
            stated = _SEP.fullmatch(file.readline().strip())
            if stated is None:
                file.seek(0)
            mark = stated[1] if stated is not None else _divided_by(file)
            begun = 1 if stated is None else 2
            for number, row in enumerate(csv.reader(file, delimiter=mark, strict=True), start=begun):
                cells = [composed(cell) for cell in row]
                # A row of nothing but gaps can be predicted; blank lines, and what is above the header, are no rows.
                if any(cells) or (rows and len(cells) == len(rows[0])):
                    rows.append(cells)
                    places.append(number)
                    if not "".join(row).isascii():
                        hidden.update(column for column, cell in enumerate(row) if HIDDEN.search(cell))
    except FileNotFoundError as error:
        raise TaskError(f"{path!r} does not exist") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{path!r} is not UTF-8 text: save it as 'CSV UTF-8'") from error
    except csv.Error as error:
        what = f"is no valid csv after row {len(rows)}: {error}"
        if "field limit" in str(error):
            most = f"{csv.field_size_limit():,} characters"
            what = f"has a cell of more than {most} after row {len(rows)}: close its quote, or leave the column out"
        raise TaskError(f"{path!r} {what}") from error
    except OSError as error:
        raise TaskError(f"{path!r} cannot be read: {error.strerror}") from error
    while rows and not any(rows[-1]):  # spreadsheets leave such rows behind
        rows.pop()
        places.pop()
    if len(rows) < 2:
        raise TaskError(f"{path!r} has no rows; expected a header and rows under it")
    return rows, places, mark, hidden


_BEGINNINGS = {
    b"PK\x03\x04": "is a zip archive, as .xlsx files are: save it as 'CSV UTF-8'",
    b"\xd0\xcf\x11\xe0": "is an old Excel file (.xls): save it as 'CSV UTF-8'",
    b"\x1f\x8b": "is packed by gzip: unpack it",
    b"BZh": "is packed by bzip2: unpack it",
    b"\xfd7zXZ": "is packed by xz: unpack it",
    b"\x28\xb5\x2f\xfd": "is packed by zstd: unpack it",
    b"%PDF": "is a PDF; expected a csv or parquet file",
    b"SQLite format": "is a database: export the table as csv",
    b"<!doctype": "is a web page: was a login page saved in place of the file?",
    b"<html": "is a web page: was a login page saved in place of the file?",
    b"<?xml": "is XML; expected a csv or parquet file",
    b'{"': "is JSON; expected a csv or parquet file",
    b"[{": "is JSON; expected a csv or parquet file",
}
"""By a file's first bytes, in small letters: what it is, and the way out."""


def _check_kind(path: str, place: Path, *, is_parquet: bool) -> None:
    """Refuse a folder, an empty file and a file of another kind, by its first bytes."""
    if place.is_dir():
        parts = sum(one.name.startswith("part-") for one in place.iterdir())
        if parts:
            raise TaskError(f"{path!r} is a folder of {parts} part files, as Spark writes them: save it as one file")
        raise TaskError(f"{path!r} is a folder; expected a csv or parquet file")
    with place.open("rb") as file:
        first = file.read(64)
    if not first:
        raise TaskError(f"{path!r} is empty: it has no rows")
    begin = first.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for begins, what in _BEGINNINGS.items():
        if first.startswith(begins) or begin.startswith(begins):
            raise TaskError(f"{path!r} {what}")
    if first.startswith(b"PAR1") != is_parquet:
        wrong = "cannot be read as parquet: it begins otherwise" if is_parquet else "is parquet: name it .parquet"
        raise TaskError(f"{path!r} {wrong}")


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

    if not place.exists():
        raise TaskError(f"{path!r} does not exist")
    try:
        _check_kind(path, place, is_parquet=True)
        content = parquet.ParquetFile(place).read()
        found = [_texts(path, *column) for column in zip(content.column_names, content.columns, strict=True)]
    except TaskError:
        raise
    except Exception as error:  # pyarrow raises many kinds
        raise TaskError(f"{path!r} cannot be read as parquet: {' '.join(str(error).split())[:200]}") from error
    header = tuple(composed(name) for name in content.column_names)
    if not content.num_rows or not header:
        raise TaskError(f"{path!r} has no rows; expected columns with names, and rows")
    _check_header(path, header)
    raw = dict(zip(header, found, strict=True))
    hidden = {name: sum(bool(HIDDEN.search(cell)) for cell in cells) for name, cells in raw.items()}
    cells = {name: [*map(composed, cells)] for name, cells in raw.items()}
    places = range(1, content.num_rows + 1)
    return Sheet(path, header, cells, places, hidden={name: count for name, count in hidden.items() if count})


def _texts(path: str, name: str, column: Any) -> list[str]:
    """The cells of a parquet column as text; nested values, bytes that are no text and nanoseconds are refused."""
    import pyarrow as arrow

    kind = column.type
    if arrow.types.is_nested(kind):
        raise TaskError(f"{path!r}, column {name!r} holds {kind}: a cell holds one value; leave the column out")
    try:
        if arrow.types.is_timestamp(kind):  # Python's times have microseconds
            column = column.cast(arrow.timestamp("us", kind.tz))
        elif arrow.types.is_time64(kind):
            column = column.cast(arrow.time64("us"))
        elif arrow.types.is_duration(kind):
            column = column.cast(arrow.duration("us"))
        return [_text(value.decode() if isinstance(value, bytes) else value) for value in column.to_pylist()]
    except UnicodeDecodeError as error:
        raise TaskError(f"{path!r}, column {name!r} holds bytes that are no UTF-8 text") from error
    except arrow.ArrowInvalid as error:
        raise TaskError(
            f"{path!r}, column {name!r} has times finer than microseconds, or of no year from 1 to 9999: round them"
        ) from error


def _text(value: Any) -> str:
    """A value as csv files have it; whole numbers that became floats because of gaps are written whole again."""
    if value is None or value != value:
        return ""
    if isinstance(value, datetime) and value.time() == time(0) and value.tzinfo is None:
        return value.date().isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, timedelta):
        minutes, seconds = divmod(abs(value), timedelta(minutes=1))
        whole, rest = divmod(seconds, timedelta(seconds=1))
        fraction = f".{rest.microseconds:06}" if rest else ""
        return f"{'-' * (value < timedelta(0))}{minutes // 60}:{minutes % 60:02}:{whole:02}{fraction}"
    return str(value)
