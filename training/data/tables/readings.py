"""Readings of a cell: every number or point in time that it may be, and how it is written; no torch.

One rule for all columns: a cell with one reading as what its column is is read, and a dress that is not plain is
counted. A cell with two readings is asked about, or refused with both named. A cell without one does not fit.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from dpeer.training.data.tables.numerals import LARGEST, ambiguous, as_number, is_code


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
_BRACKETS = re.compile(r"\((?P<number>[^()]+)\)")
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
    """The numbers that a cell may be, each once.

    Args:
        cell: The text.
        decimal: The table's decimal mark, as `numerals.decimal_mark` gives it.
        unit: The column's unit; times of the day and durations are given in it, if it is one of time.
    """
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
    if match := _BRACKETS.fullmatch(cell):
        inner = [one for one in numbers(match["number"], decimal, unit) if one.value > 0]
        both = [(one, sign * one.value) for one in inner for sign in (-1, 1)]
        return tuple(one._replace(value=value, shown=f"{value:g}") for one, value in both)
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
    if cell.startswith("("):
        return "write a minus in place of brackets"
    return "state the unit" if re.search(r"10[\^*]", cell) else "write numbers without marks for thousands"


def _undressed(cell: str, decimal: str) -> tuple[Reading, ...]:
    value = as_number(cell, decimal)
    if value is not None:
        return (Reading(value, cell, code=is_code(cell, decimal)),)
    return tuple(Reading(float(one), one) for one in ambiguous(cell, decimal) or ())


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
