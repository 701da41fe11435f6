"""Readings of a cell: every number, point in time or word that it may be, and how it is written; no torch.

One rule for all columns: a cell with one reading as what its column is is read, and a dress that is not plain is
counted. A cell with two readings is asked about, or refused with both named: `1.789` in a table whose decimal mark is
the comma may be 1789 or 1.789. A cell without one does not fit. A code, such as `007`, `1E2` or a text of 18 digits, is
no plain number: it does not come back from a number as it was.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

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
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.0)?")
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


def _ambiguous(cell: str, decimal: str) -> tuple[str, ...]:
    """The two numbers that a cell may be, with a decimal point or none; empty if it can be read in one way at most."""
    found = _EITHER.fullmatch(cell)
    return () if found is None or found[1] == decimal else (cell.replace(",", "."), cell.replace(found[1], ""))


def as_number(cell: str, decimal: str = ".") -> float | None:
    """The finite number that a cell is; None if it is none, may be two, or is one that float32 does not have.

    `decimal` is the table's mark, as `decimal_mark` gives it.
    """
    if not (decimal == "." and _POINT.fullmatch(cell)):
        if _ambiguous(cell, decimal):
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
    """The numbers of cells that `as_number` reads, ten times as quickly.

    Returns:
        None where a cell has other signs, or is no number, or a code that does not count as one (without `codes`).
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


class Reading(NamedTuple):
    """A number that a cell may be.

    Attributes:
        value: The number.
        shown: How it is shown beside another reading.
        how: The dress of the cell; empty for a plain number.
        unit: The unit behind or before the number; empty without one.
        bound: -1 if the value is only known to be below it, 1 if above, else 0.
        code: Whether the digits are a code rather than a number.
    """

    value: float
    shown: str
    how: str = ""
    unit: str = ""
    bound: int = 0
    code: bool = False


_MINUS = "\u2212\u2010\u2011\u2013\ufe63\uff0d"
_WIDE = str.maketrans("\uff0b\uff0e\uff0c\uff1a\uff0f\uff05\uff1c\uff1e", "+.,:/%<>")
_BOUND = re.compile(r"(?P<sign><=|>=|[<>\u2264\u2265])\s?(?P<rest>[^\s<>=].*)")
_CLOCK = re.compile(r"(?P<sign>[+-]?)(?P<first>[0-9]{1,6}):(?P<second>[0-5][0-9])(:(?P<third>[0-5][0-9](\.[0-9]+)?))?")
_PAIR = re.compile(r"(?P<first>[0-9.,]+)\s?/\s?(?P<second>[0-9.,]+)")
_MONEY = "$\u20ac\u00a3\u00a5\u20b9"
_DRESSED = re.compile(
    rf"(?P<sign>[+-]?)(?P<money>[{_MONEY}]?)\s?"
    r"(?P<number>[+-]?[.,]?[0-9](?:[0-9.,'\u2019\u2009\u202f ]*[0-9])?\.?(?:[eE][+-]?[0-9]+)?)"
    r"(?P<power>\s?[x\u00d7*\u00b7]\s?10(?:(?:\^|\*\*)[+-]?[0-9]{1,2}|[\u207a\u207b]?[\u2070\u00b9\u00b2\u00b3\u2074-\u2079]{1,2}))?"
    rf"\s?(?P<unit>(?:[^\W\d_]|[%\u2030\u00b0/{_MONEY}])(?:[^<>=,;]{{0,22}}[^<>=,;\s])?)?"
)
SECONDS = {"ms": 0.001, "s": 1, "seconds": 1, "min": 60, "minutes": 60, "h": 3600, "hours": 3600, "days": 86400}
"""Units of time, in seconds."""


def numbers(cell: str, decimal: str = ".", unit: str = "") -> tuple[Reading, ...]:
    """The numbers that a cell may be, each once; durations in the column's unit, if it is one of time."""
    if found := _undressed(cell, decimal):
        return found
    text, how = plainly(cell)
    if how:
        return _dressed(numbers(text, decimal, unit), how)
    if match := _BOUND.fullmatch(cell):
        bound = -1 if match["sign"] in ("<", "<=", "\u2264") else 1
        inner = [one for one in numbers(match["rest"], decimal, unit) if not one.bound]
        return tuple(one._replace(bound=bound) for one in _dressed(inner, "as bounds (< or >)"))
    if match := _CLOCK.fullmatch(cell):
        return _clock(match, unit)
    if match := _PAIR.fullmatch(cell):
        first, second = (as_number(match[key], decimal) for key in ("first", "second"))
        if first is None or not second:
            return ()
        shown = f"{match['first']} and {match['second']}"
        return Reading(first, shown), Reading(first / second, f"{first / second:.4g}")
    match = _DRESSED.fullmatch(f"1x{cell}" if re.match(r"10[\^*]", cell) else cell)
    return () if match is None else _with_unit(match, decimal, unit)


def advice(cell: str) -> str:
    """How a number with two readings is written so that it has one."""
    if _PAIR.fullmatch(cell):
        return "make two columns of it, or write one number"
    if ":" in cell:
        return "write times as h:mm:ss"
    return "state the unit" if re.search(r"10[\^*]", cell) else "write numbers without marks for thousands"


def _undressed(cell: str, decimal: str) -> tuple[Reading, ...]:
    value = as_number(cell, decimal)
    if value is not None:
        return (Reading(value, cell, code=is_code(cell, decimal)),)
    return tuple(Reading(float(one), one) for one in _ambiguous(cell, decimal))


def plainly(cell: str) -> tuple[str, str]:
    """A cell in ASCII digits and signs, and its dress if that changes it."""
    if cell.isascii():
        return cell, ""
    text, hows = cell, []
    if minus := next((sign for sign in cell if sign in _MINUS), ""):
        text = re.sub(f"[{_MINUS}]", "-", text)
        hows.append(f"with {minus!r} (U+{ord(minus):04X}) for a minus")
    wide = "".join(str(unicodedata.decimal(sign)) if sign.isdecimal() else sign for sign in text).translate(_WIDE)
    if wide != text:
        hows.append("in digits or signs of another script")
    return wide, " and ".join(hows)


def _dressed(found: Iterable[Reading], how: str) -> tuple[Reading, ...]:
    return tuple(one._replace(how=f"{how} and {one.how}" if one.how else how) for one in found)


def _clock(found: re.Match[str], unit: str) -> tuple[Reading, ...]:
    """A duration or time of the day; without seconds it may be one of hours or of minutes."""
    sign, first, second = -1 if found["sign"] == "-" else 1, int(found["first"]), int(found["second"])
    if found["third"] is None:
        hours, minutes = sign * (first * 3600 + second * 60.0), sign * (first * 60.0 + second)
        return Reading(hours, f"{first} h {second} min"), Reading(minutes, f"{first} min {second} s")
    seconds = sign * (first * 3600 + second * 60 + float(found["third"]))
    given = unit if unit in SECONDS else "s"
    return (Reading(seconds / SECONDS[given], f"{seconds:g} s", "as h:mm:ss", given),)


def _with_unit(found: re.Match[str], decimal: str, unit: str) -> tuple[Reading, ...]:
    number, power, behind = f"{found['sign']}{found['number']}", (found["power"] or "").strip(), found["unit"] or ""
    if found["money"] and behind:
        return ()
    behind = found["money"] or behind
    plain = [one for one in _undressed(number, decimal) if not one.code]
    how = f"with the unit {behind!r}" if behind else ""
    if not power:
        return tuple(one._replace(unit=behind, how=how) for one in plain)
    exponent = int(re.sub(r"[\^*]", "", unicodedata.normalize("NFKC", power).partition("10")[2]).replace("\u2212", "-"))
    scaled = [one._replace(value=float(Decimal(repr(one.value)).scaleb(exponent))) for one in plain]
    scaled = [one for one in scaled if abs(one.value) <= LARGEST]
    whole = f"{power}{behind}"
    if same_unit(whole, unit):
        return _dressed((one._replace(unit=whole) for one in plain), f"with the unit {whole!r}")
    dressed = [one._replace(unit=behind, shown=f"{one.value:g} {behind}".strip()) for one in scaled]
    if behind and not same_unit(behind, unit):  # the power may be a part of the unit
        dressed += [one._replace(unit=whole, shown=f"{one.shown} {whole}") for one in plain]
    return _dressed(dressed, " and ".join(filter(None, ("with powers of ten", how))))


def of_unit(found: Iterable[Reading], unit: str) -> list[Reading]:
    """The readings without a unit, or with this one."""
    return [one for one in found if not one.unit or same_unit(one.unit, unit)]


def same_unit(one: str, other: str) -> bool:
    """Whether two units are written alike, but for blanks, raised digits and two forms of a letter."""
    return _bare(one) == _bare(other)


@lru_cache
def _bare(unit: str) -> str:
    return re.sub(r"[\s^]", "", unicodedata.normalize("NFKC", unit).replace("\u00d7", "x"))


_WIDTHS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2, "%S": 2, "%y": 2, "%j": 3, "%f": 6}


@lru_cache
def _shape(form: str) -> re.Pattern[str] | None:
    """What a cell must look like where digits of two parts touch: each part has all its digits then."""
    parts = re.findall(r"%.|[^%]+", form)
    touching = {n for n in range(len(parts) - 1) if parts[n] in _WIDTHS and parts[n + 1] in _WIDTHS}
    if not touching:
        return None
    touching |= {n + 1 for n in touching}
    return re.compile("".join(rf"\d{{{_WIDTHS[part]}}}" if n in touching else ".+?" for n, part in enumerate(parts)))


def dates(cell: str, formats: Sequence[str]) -> dict[datetime, str]:
    """The points in time that a cell may be, without a time zone, each with the first format that reads it so."""
    text = plainly(cell)[0]
    found: dict[datetime, str] = {}
    for one in formats:
        shape = _shape(one)
        if shape is not None and not shape.fullmatch(text):
            continue
        try:
            moment = datetime.strptime(text, one)
            moment = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            continue
        found.setdefault(moment, one)
    return found


def _without_zeros(cells: Iterable[str]) -> Collection[str]:
    """The cells of whole numbers that are written with `.0`, if all numbers among the cells are whole.

    A program that had gaps in a column writes 1 as 1.0. Where other numbers are there, as 250.01 beside 250.0, the
    zero may be a part of a code.
    """
    numbers = [cell for cell in set(cells) if as_number(cell) is not None]
    whole = all(_WHOLE.fullmatch(cell) for cell in numbers)
    return frozenset(cell for cell in numbers if whole and cell.endswith(".0"))


class Spellings:
    """The words of a category or the classes, each once, and the other spellings that a column's cells have of them.

    A cell is the word that it equals; else the one that differs in capitals alone; else, where all numbers among the
    words and among the cells are whole, the one that differs by `.0`; else the one that differs in the decimal mark.
    """

    def __init__(self, words: Sequence[str], cells: Sequence[str] = (), decimal: str = ".") -> None:
        self._decimal = decimal
        self._exact = {word: place for place, word in enumerate(words)}
        folds = Counter(word.casefold() for word in self._exact)
        self._folded = {word.casefold(): place for word, place in self._exact.items() if folds[word.casefold()] == 1}
        whole = all(_WHOLE.fullmatch(word) for word in words if as_number(word) is not None)
        bare = {word.removesuffix(".0"): place for word, place in self._exact.items() if whole}
        self._bare = bare if len(bare) == len(words) else {}
        self._zeros = _without_zeros(cells) if self._bare else frozenset()
        apart = len({word.replace(",", ".") for word in words}) == len(words)
        places = self._exact.items()
        self._pointed = {one: place for word, place in places if apart and (one := _pointed(word, ""))}

    def place(self, cell: str) -> int | None:
        """The place of the cell's word; None if it is none of them."""
        found = self._exact.get(cell)
        if found is None:
            found = self._folded.get(cell.casefold())
        if found is None and (cell in self._zeros if cell.endswith(".0") else _WHOLE.fullmatch(cell)):
            found = self._bare.get(cell.removesuffix(".0"))
        return self._pointed.get(_pointed(cell, self._decimal)) if found is None else found


def _pointed(word: str, decimal: str) -> str:
    """A number that is no whole one, with a decimal point; empty for other words, and for what may be two numbers."""
    fits = re.fullmatch(r"-?[0-9]+[.,][0-9]+", word) and as_number(word, decimal) is not None
    return word.replace(",", ".") if fits else ""


def spelled(cells: Sequence[str]) -> dict[str, str]:
    """By cell, the word that it is one spelling of: of those that differ in capitals or by `.0`, the most frequent.

    Equally frequent spellings give the one that sorts first.
    """
    zeros = _without_zeros(cells)
    bare = {cell: cell.removesuffix(".0") if cell in zeros else cell for cell in {*cells}}
    counts = Counter(bare[cell] for cell in cells)
    chosen: dict[str, str] = {}
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        chosen.setdefault(word.casefold(), word)
    return {cell: chosen[word.casefold()] for cell, word in bare.items()}
