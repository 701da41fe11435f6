"""Reader of texts and labels in tab-separated files, as GLUE (Wang et al., 2018) distributes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dpeer.exceptions import TaskError


class TextColumns(NamedTuple):
    """What the columns of such a file are.

    Attributes:
        texts: Those of the one or two texts.
        label: That of the label.
        labels: What stands there, in the order of the classes' numbers.
    """

    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For the card of a model."""
        return {"texts": list(self.texts), "label": self.label, "labels": list(self.labels)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> TextColumns:
        """What `to_json` made."""
        return cls(tuple(content["texts"]), str(content["label"]), tuple(content["labels"]))


class TextRows(NamedTuple):
    """What was read.

    Attributes:
        texts: A list for each column of texts, in the same order of rows.
        labels: The class number of each row; None where there is no such column.
        lines: The number of each row's line.
        others: The other columns' cells, by name.
        left_out: The numbers of lines that are not as they must be.
    """

    texts: list[list[str]]
    labels: list[int] | None
    lines: list[int]
    others: dict[str, tuple[str, ...]]
    left_out: list[int]


def read_texts(where: str, content: bytes, columns: TextColumns, *, skip: bool = False, advice: str = "") -> TextRows:
    """The rows of a file; its first line names the columns, of which that of the label may be missing.

    Args:
        where: The file, for messages.
        content: What is in it.
        columns: What its columns are.
        skip: Whether lines that are not as they must be are left out.
        advice: What the message about such a line ends with.

    Raises:
        TaskError: A column is missing, or a line is not as it must be; the message names the line.
        UnicodeDecodeError: It is no UTF-8.
    """
    # Not by `splitlines`, which parts at more characters, nor by `csv`: quotation marks are part of the sentences.
    lines = content.decode("utf-8-sig").split("\n")
    header = lines[0].rstrip("\r").split("\t")
    if missing := next((name for name in columns.texts if name not in header), None):
        raise TaskError(f"{where}, line 1: there is no column {missing!r}; it has {', '.join(header[:12])}")
    at = header.index(columns.label) if columns.label in header else None
    rows: list[list[str]] = []
    numbers: list[int] = []
    left_out: list[int] = []
    for number, line in enumerate(lines[1:], 2):
        if not line and number == len(lines):  # what is behind the last line's end
            break
        cells = line.rstrip("\r").split("\t")
        problem = _problem(cells, header, at, columns)
        if not problem:
            rows.append(cells)
            numbers.append(number)
        elif skip:
            left_out.append(number)
        else:
            raise TaskError(f"{where}, line {number}: {problem}{advice}")
    known = {*columns.texts, columns.label}
    return TextRows(
        [[cells[header.index(name)] for cells in rows] for name in columns.texts],
        None if at is None else [columns.labels.index(cells[at]) for cells in rows],
        numbers,
        {name: tuple(cells[place] for cells in rows) for place, name in enumerate(header) if name not in known},
        left_out,
    )


def read_lines(where: Path) -> list[str]:
    """The texts of a file with one in each line.

    Raises:
        OSError, UnicodeDecodeError: It cannot be read.
    """
    lines = where.read_bytes().decode("utf-8-sig").split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if not lines[-1] else lines)]


def _problem(cells: list[str], header: list[str], at: int | None, columns: TextColumns) -> str:
    """What is wrong with a line; empty if nothing is."""
    if len(cells) != len(header):
        return f"{len(cells)} columns, and the header has {len(header)}"
    if at is not None and cells[at] not in columns.labels:
        return f"{columns.label} = {cells[at]!r}; expected one of {', '.join(columns.labels)}"
    return ""
