"""Numbers as tables write them: decimal and thousands marks, and codes that merely look like numbers; no torch.

A cell that can be read in two ways is no number: `1.789` in a table whose decimal mark is the comma may be 1789 or
1.789. A code is no number either: `007`, `1E2` and a text of 18 digits do not come back from a number as they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

LARGEST = float(np.finfo(np.float32).max)
"""The largest number that float32 has."""

_BLANKS = " \u00a0\u2009\u202f'\u2019"
_GROUPED = re.compile(rf"[+-]?[1-9][0-9]{{0,2}}([{_BLANKS}])[0-9]{{3}}(\1[0-9]{{3}})*([.,][0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_POINT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_EITHER = re.compile(r"[+-]?[1-9][0-9]{0,2}([.,])[0-9]{3}")
_THOUSANDS = {
    ".": re.compile(r"[+-]?[1-9][0-9]{0,2}((,[0-9]{3}){2,}|(,[0-9]{3})+\.[0-9]+)"),
    ",": re.compile(r"[+-]?[1-9][0-9]{0,2}((\.[0-9]{3}){2,}|(\.[0-9]{3})+,[0-9]+)"),
}
"""By decimal mark, numbers in which the other mark can only divide thousands."""
_PLAIN = re.compile(r"[+-]?((0|[1-9][0-9]{0,14})(\.[0-9]*)?|\.[0-9]+|[0-9]\.[0-9]+[eE][+-]?[0-9]+|[0-9][eE][+-][0-9]+)")
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.0)?")
"""A whole number as it is written, perhaps with `.0`."""


def decimal_mark(cells: Iterable[str]) -> str:
    """The decimal mark of a table whose cells are not divided by commas: "." or ","; "" if it shows none, or both.

    Only cells that can be read in one way tell: `12,5` and `1.234,5` have a comma, `12.5` and `0.125` a point.
    """
    comma = point = False
    for cell in cells:
        if _EITHER.fullmatch(cell):
            continue
        comma = comma or bool(_COMMA.fullmatch(cell) or _THOUSANDS[","].fullmatch(cell))
        point = point or bool(("." in cell and _POINT.fullmatch(cell)) or _THOUSANDS["."].fullmatch(cell))
        if comma and point:
            return ""
    return "," if comma else "." if point else ""


def ambiguous(cell: str, decimal: str = ".") -> tuple[str, str] | None:
    """The two numbers that a cell may be, with a decimal point or none; None if it can be read in one way at most.

    Args:
        cell: The text.
        decimal: The table's decimal mark, as `decimal_mark` gives it.
    """
    found = _EITHER.fullmatch(cell)
    if found is None or found[1] == decimal:
        return None
    return cell.replace(",", "."), cell.replace(found[1], "")


def as_number(cell: str, decimal: str = ".") -> float | None:
    """The finite number that a cell is; None if it is none, may be two, or is one that float32 does not have."""
    if decimal == "." and _POINT.fullmatch(cell):
        value = float(cell)
        return value if abs(value) <= LARGEST else None
    if ambiguous(cell, decimal) is not None:
        return None
    if _GROUPED.fullmatch(cell):
        cell = re.sub(rf"[{_BLANKS}]", "", cell)
    if any(_THOUSANDS[mark].fullmatch(cell) for mark in (decimal or ".,")):
        other = min(cell.find(mark) for mark in ".," if mark in cell)
        cell = cell.replace(cell[other], "")
    if decimal != "." and _COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    if not _POINT.fullmatch(cell):
        return None
    value = float(cell)
    return value if abs(value) <= LARGEST else None


def is_code(cell: str, decimal: str = ".") -> bool:
    """Whether a cell reads as a number and is none: it would not come back as it was written."""
    if _PLAIN.fullmatch(cell.replace(",", ".")) or as_number(cell, decimal) is None:
        return False
    return not any(blank in cell for blank in _BLANKS) and not any(_THOUSANDS[mark].fullmatch(cell) for mark in ".,")


_SIMPLE = frozenset("0123456789.-")


def all_numbers(cells: Sequence[str], decimal: str, *, codes: bool) -> NDArray[np.float64] | None:
    """The numbers of cells that `as_number` reads, ten times as quickly; None where a cell has other signs or is none.

    Args:
        cells: The texts.
        decimal: The table's decimal mark.
        codes: Whether codes are numbers; else None where a cell is one.
    """
    if decimal != "." or not _SIMPLE.issuperset("".join(cells)):
        return None
    if not codes and any(is_code(cell) for cell in cells if cell.lstrip("-")[:1] == "0" or len(cell) > 15):
        return None
    try:
        found = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    return found if np.abs(found).max(initial=0.0) <= LARGEST else None
