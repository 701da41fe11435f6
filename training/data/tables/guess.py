"""Guess of what a column is, from its name and its cells, and which values are far from all others; no torch."""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from dpeer.training.data.tables.readings import (
    SECONDS,
    Reading,
    advice,
    dates,
    numbers,
    of_unit,
    plainly,
    same_unit,
    spelled,
)

YES = (
    "yes", "y", "true", "t", "ja", "j", "oui", "si", "sí", "sì", "sim", "da", "tak", "ano", "igen", "kyllä", "evet",
    "positive", "pos", "present",
)  # fmt: skip
"""Yes in several languages, without capitals."""

NO = (
    "no", "n", "false", "f", "nein", "non", "não", "nao", "nu", "nie", "ne", "nem", "nej", "nee", "ei", "hayır",  # noqa: RUF001
    "negative", "neg", "absent",
)  # fmt: skip
"""No in several languages, without capitals."""

DATES = (
    "%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%Y%m%d", "%d.%m.%y",
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%d.%m.%Y %H:%M",
    "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z",
)  # fmt: skip
"""Formats of dates, in the order in which they are tried."""

PERSON = re.compile(r"(^|[\s_.-])(patient|subject|person|case|mrn|pid)([\s_.-]?(id|nr|no|number|key))?$", re.IGNORECASE)
"""Names of columns that say whose a row is."""

IDENTIFIER = re.compile(
    r"(^|[\s_.-])(id|ids|nr|no|uuid|guid|key|index|row|number|mrn|pid)$|^(unnamed.*|__index_level_\d+__|)$",
    re.IGNORECASE,
)
"""Names of columns that number rows or name things."""

UNIT = re.compile(r"[(\[]([^()\[\]]{1,12})[)\]]\s*$")
"""A unit in brackets at the end of a name."""

_SUFFIXES = "years|yrs|days|hours|min|kg|g|mg|ug|cm|mm|m|mmhg|bpm|mmol|mmol_l|mg_dl|g_dl|ml|l|celsius|percent|pct"
SUFFIX = re.compile(rf"[\s_]({_SUFFIXES})$", re.IGNORECASE)
"""A unit as the last word of a name."""

Keys = dict[str, Any]

FEW = 10
"""Whole numbers with so many values or fewer may be codes."""

LISTED = 50
"""The most values that are proposed for a category."""

RARE = 3
"""A value of fewer rows is not written down: it may point to one person."""

MANY = 20
"""Of fewer rows nothing is concluded from how often a text occurs."""


class Guess(NamedTuple):
    """What a column probably is."""

    keys: Keys
    """Its keys in a schema."""
    remark: str = ""
    """What to look at; empty if it is plain."""
    strange: tuple[str, ...] = ()
    """Cells that do not fit; they are shown to the site, and not written into the schema."""


class Cells(Counter[str]):
    """The different words of a column that are no gaps, each with its number of rows."""

    @classmethod
    def of(cls, cells: Sequence[str]) -> Cells:
        """Of the cells themselves; spellings of one word are one."""
        words = spelled(cells)
        return cls(words[cell] for cell in cells)

    def rows(self, words: Iterable[str]) -> int:
        """The rows of these words."""
        return sum(self[word] for word in words)

    def few(self, strange: Collection[str]) -> bool:
        """Whether at most a tenth of the cells, or of many different ones, are strangers."""
        of_many = len(self) > FEW and 10 * len(strange) < len(self)
        return of_many or 10 * self.rows(strange) <= self.total()

    def strangers(self, strange: Collection[str], what: str) -> str:
        """The question about cells that do not fit."""
        if not strange:
            return ""
        count = self.rows(strange)
        verb = f"is no {what}: correct it, or is it" if count == 1 else f"are no {what}: correct them, or are they"
        return f"{count} of {self.total()} cells {verb} a word for a gap (missing = [...])?"


def guess(name: str, cells: Sequence[str], *, decimal: str) -> Guess:
    """What a column is, from its name and its cells that are no gaps.

    A tenth of the cells may be strangers: they do not make another column of it, and are asked about.
    """
    column = Cells.of(cells)
    if not column:
        return Guess({"kind": "ignore"}, "every cell is empty here: what is it at the other sites?")
    if (found := _yes_no(column)) is not None:
        return found
    read = numbers_of(name, column, decimal)
    plain = sum(not one.how for one in read.single.values())
    if (plain < len(column) or _look_like_days(column)) and (found := _date(column)) is not None:
        return found
    return _number(name, column, read) or _words(name, column)


def _joined(*remarks: str) -> str:
    return "; ".join(one.rstrip(".") for one in remarks if one)


def _yes_no(column: Cells) -> Guess | None:
    known = {word for word in column if word.casefold() in {*YES, *NO, "1", "0"}}
    strange, words = tuple(word for word in column if word not in known), {word.casefold() for word in known}
    digits = words == {"0", "1"} and not any(map(numbers, strange))
    if not column.few(strange) or not (digits or (words & {*YES} and words & {*NO})):
        return None
    remark = _joined("0 and 1 only: is 1 yes?" if digits else "", column.strangers(strange, "yes or no"))
    keys = {"kind": "yes-no", "yes": sorted(words & {*YES, "1"}), "no": sorted(words & {*NO, "0"})}
    return Guess(keys, remark, strange)


def _look_like_days(column: Cells) -> bool:
    """Whether numbers of eight digits may be days such as 20240131."""
    return column.few(
        [cell for cell in column if not (len(cell) == 8 and cell.isdigit() and "19000101" <= cell <= "21001231")]
    )


def _date(column: Cells) -> Guess | None:
    digits = [cell for cell in column if plainly(cell)[0][:1].isdigit()]
    if not column.few(column.keys() - {*digits}):
        return None
    found = {one: {cell for cell in digits if dates(cell, [one])} for one in DATES}
    formats = _formats(found, column)
    if not formats:
        return None
    moments = {cell: [*read][-1] for cell in digits if (read := dates(cell, formats))}
    short = any("%y" in one for one in formats)
    if short:  # Python takes 47 for 2047, which lies in the future
        today = datetime.datetime.now()
        moments = {cell: _back(moment) if moment > today else moment for cell, moment in moments.items()}
    gaps = _far_off({cell: float(moment.toordinal()) for cell, moment in moments.items()}, column, _FAR_DAYS)
    years = [moment.year for cell, moment in moments.items() if cell not in gaps]
    # A year more on each side: the first and the last day point to a person.
    first, last = max(min(years) - 1, 1), min(max(years) + 1, 9999)
    double = [cell for cell in digits if len(dates(cell, formats)) > 1]
    asked = (
        f"{len(double)} dates such as {double[0]!r} fit {' and '.join(formats)}: keep the right one" if double else ""
    )
    if len(formats) == 1 and {one for one, cells in found.items() if cells == found[formats[0]]} >= _SWAPPED:
        asked = "day/month or month/day? Every date here could be both"
    if short:
        first = max(first, last - 99, 1)
        asked = f"years have two digits: are they all from {first} to {last}? The range says the century"
    strange = tuple(cell for cell in column if cell not in moments)
    ends = [datetime.date(first, 1, 1), datetime.date(last, 12, 31)]
    keys = {"kind": "date", "format": formats if len(formats) > 1 else formats[0], "range": ends}
    return Guess(keys, _joined(column.strangers(strange, "date"), _asked_gaps(gaps), asked), strange)


_SWAPPED = {"%d/%m/%Y", "%m/%d/%Y"}


def _formats(found: Mapping[str, set[str]], column: Cells) -> list[str]:
    """The formats of a column of dates: one, or two as of a day and at times the hour, too; perhaps none.

    `found` are the cells that each format reads.
    """
    ordered = sorted(found, key=lambda one: column.rows(found[one]), reverse=True)
    first = ordered[0]
    apart = [one for one in ordered if found[one] and not found[one] & found[first] and {one, first} != _SWAPPED]
    for formats in ([first, *apart[:1]], [first], sorted(_SWAPPED)):
        read = set().union(*(found[one] for one in formats))
        if read and column.few(column.keys() - read):
            return formats
    return []


_FEWEST = 10
"""Of fewer other values nothing is concluded."""

_MOST_FAR = 3
"""The most such values on a side."""

_FAR, _FAR_STAND_IN = 3.0, 0.25
"""How far such values are from all others, in the distance of these from one another."""

_NEGATIVE = re.compile(r"-(1|7+|8+|9+)")
_NINES = re.compile(r"-?9{3,}(\.9+|\.0+)?")
_FAR_DAYS = {
    float(datetime.date.fromisoformat(day).toordinal())
    for day in ("0001-01-01", "1753-01-01", "1899-12-30", "1900-01-01", "1970-01-01", "2099-12-31", "9999-12-31")
}


def _far_off(values: Mapping[str, float], rows: Mapping[str, int], stand_ins: Collection[float]) -> set[str]:
    """The cells whose values lie far from all others, as these lie apart, and occur more than once.

    Such values often stand for a gap. Where all others are not negative, -1, -9, -99 and such are among them, too.

    Args:
        values: By cell, its value.
        rows: By cell, its number of rows.
        stand_ins: Values that often stand for a gap: one row is enough, and they need not be as far.
    """
    counts: Counter[float] = Counter()
    for cell, value in values.items():
        counts[value] += rows[cell]
    ordered = sorted(counts)
    found: set[float] = set()
    for low, high in product(range(_MOST_FAR + 1), repeat=2):
        first, last = low, len(ordered) - high - 1
        removed = {*ordered[:low], *ordered[last + 1 :]}
        if len(removed) <= len(found) or last - first + 1 < _FEWEST:
            continue
        far = (_FAR_STAND_IN if removed <= {*stand_ins} else _FAR) * (ordered[last] - ordered[first])
        is_far = (not low or ordered[first] - ordered[first - 1] > far) and (
            not high or ordered[last + 1] - ordered[last] > far
        )
        if is_far and all(counts[value] > 1 or value in stand_ins for value in removed):
            found = removed
    negative = [value for value in ordered if value < 0 and value not in found]
    others = len(ordered) - len(negative) - len(found)
    stands_in = all(counts[value] > 1 and _NEGATIVE.fullmatch(f"{value:g}") for value in negative)
    if stands_in and len(negative) <= _MOST_FAR and others >= _FEWEST:
        found = found | {*negative}
    return {cell for cell, value in values.items() if value in found}


def _asked_gaps(gaps: Collection[str]) -> str:
    """The question about values far from all others."""
    if not gaps:
        return ""
    listed = ", ".join(f'"{cell}"' for cell in sorted(gaps))
    what = "is a value far from all others, or a gap" if len(gaps) == 1 else "are values far from all others, or gaps"
    return f"{listed} {what}? The range leaves them out; for a gap write missing = [{listed}]."


def _back(moment: datetime.datetime) -> datetime.datetime:
    """The same day a century before; the 29th of February may become the 28th."""
    try:
        return moment.replace(year=moment.year - 100)
    except ValueError:
        return moment.replace(year=moment.year - 100, day=28)


class Numbers(NamedTuple):
    """A column's unit, and its different cells: those with one reading as numbers, with two, and the others."""

    unit: str
    single: Mapping[str, Reading]
    double: Mapping[str, tuple[str, ...]]
    strange: tuple[str, ...]


def numbers_of(name: str, column: Cells, decimal: str) -> Numbers:
    """The readings of a column's cells as numbers of one unit: that of most cells with one, else that of its name."""
    named = unit_of(name)
    every = {cell: numbers(cell, decimal, named) for cell in column}
    units: Counter[str] = Counter()
    for cell, found in every.items():
        if len(found) == 1 and found[0].unit:
            units[found[0].unit] += column[cell]
    unit = next((one for one, _ in units.most_common(1)), named)
    known = unit in SECONDS or SUFFIX.search(f" {unit}") is not None or same_unit(unit, named)
    if unit[:1].isalpha() and not known:
        # `12A` may be a code: one word behind a few numbers is no unit.
        unit = unit if sum(any(same_unit(one.unit, unit) for one in found) for found in every.values()) > FEW else named
    single, double = {}, {}
    for cell, found in every.items():
        fitting = of_unit(found, unit)
        if len(fitting) == 1:
            single[cell] = fitting[0]
        elif len(found) > 1:
            double[cell] = tuple(one.shown for one in fitting or found)
    return Numbers(unit, single, double, tuple(cell for cell in column if cell not in single and cell not in double))


def _number(name: str, column: Cells, read: Numbers) -> Guess | None:
    of_cells, rows = {cell: one.value for cell, one in read.single.items()}, column.total()
    fits = bool(read.single or read.double) and column.few(read.strange)
    asked = ""
    if fits and read.double:
        cell, both = next(iter(read.double.items()))
        asked = f"is {cell!r} {' or '.join(both)}? {advice(cell).capitalize()}, then propose again."
        if "/" in cell and len(column) <= FEW < 2 * rows:  # such as genotypes
            found = _words(name, column)
            return found._replace(remark=_joined(asked, found.remark))
    elif code := next((cell for cell, one in read.single.items() if one.code), ""):
        found = _words(name, column)
        why = f"codes, not numbers: {code!r} would become {of_cells[code]:g}."
        return found._replace(remark=f"{why} {found.remark}".strip())
    elif not fits or (read.strange and len(read.single) <= FEW):
        return None
    values = sorted({*of_cells.values()})
    whole = all(value.is_integer() for value in values)
    if PERSON.search(name) and whole:
        return _group(column)
    consecutive = len(values) >= 20 and len(values) == rows and values[-1] - values[0] == len(values) - 1
    if whole and (consecutive or (IDENTIFIER.search(name) and len(values) > rows / 2)):
        return Guess({"kind": "ignore"}, "looks like a row's number or an identifier")
    ends = {*values[:_MOST_FAR], *values[-_MOST_FAR:]}
    nines = {value for cell, value in of_cells.items() if value in ends and _NINES.fullmatch(cell)}
    gaps = _far_off(of_cells, column, nines)
    inner = [value for cell, value in of_cells.items() if cell not in gaps]
    keys: Keys = {"kind": "number", "unit": read.unit} | ({"range": outward(min(inner), max(inner))} if inner else {})
    hows: Counter[str] = Counter()
    for cell, one in read.single.items():
        hows[one.how] += column[cell]
    del hows[""]
    if any(one.bound for one in read.single.values()):
        keys["limits"] = True
    elif whole and len(values) <= FEW and rows > 5 * len(values) and not hows and not asked:
        low, high = keys["range"]
        return Guess(
            {"kind": "category", "values": sorted(of_cells, key=lambda cell: (of_cells[cell], cell))},
            "few whole numbers: if they are codes, do they mean the same at all sites? If they count or measure "
            f'something, write kind = "number" and range = [{low:g}, {high:g}] in place of values',
        )
    bare = next((cell for cell, one in read.single.items() if not one.unit), None)
    unit = "" if read.unit else "in which unit?"
    if bare is not None and any(one.unit for one in read.single.values()):
        unit = f"is {bare!r} in {read.unit}, too?"
    readings = "; ".join(f"{count} of {rows} cells read {how}" for how, count in hows.items())
    remark = _joined(asked, column.strangers(read.strange, "number"), _asked_gaps(gaps), readings, unit)
    return Guess(keys, remark, read.strange)


_LEAST = 1e-9
"""Numbers whose spread is a smaller share of them are taken as spread by this much."""

_SMALLEST = 1e-300
"""No step is below this: 10 to the power of a smaller exponent has few digits, or is zero."""


def outward(low: float, high: float) -> list[float]:
    """A range around numbers: rounded outward to one digit of their spread, and one step wider on each side.

    A range of numbers that are not negative does not go below 0.
    """
    # A step far below the numbers themselves would be lost in their last digits.
    spread = max(high - low, _LEAST * max(abs(low), abs(high))) if high > low else max(abs(high), 1.0)
    step = 10.0 ** math.floor(math.log10(max(spread, _SMALLEST)))
    digits = max(0, -math.floor(math.log10(step)))
    first = round((math.floor(low / step) - 1) * step, digits)
    last = round((math.ceil(high / step) + 1) * step, digits)
    return [max(first, 0.0) if low >= 0 else first, last]


def unit_of(name: str) -> str:
    """The unit that a column's name ends with; empty without one."""
    found = UNIT.search(name) or SUFFIX.search(name)
    return "" if found is None else found[1].replace("_", "/")


def _group(column: Cells) -> Guess:
    if len(column) == column.total():
        return Guess({"kind": "ignore"}, "an identifier, another in each row")
    return Guess({"kind": "group"}, "rows of one of these stay together, in training or in test")


_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_BEGINS_AS_NUMBER = re.compile(r"[~<>\u2264\u2265+-]?\s?[0-9]")


def _words(name: str, column: Cells) -> Guess:
    found = _text(name, column)
    commas = [word for word in column if _DECIMAL_COMMA.fullmatch(word)]
    if column.rows(commas) <= column.total() / 2:
        return found
    asked = f"is {commas[0]!r} {commas[0].replace(',', '.')}? The file has commas between its columns, or numbers with"
    return found._replace(remark=f"{asked} points, too: write points, then propose again")


def _text(name: str, column: Cells) -> Guess:
    rows, distinct = column.total(), len(column)
    if PERSON.search(name):
        return _group(column)
    spoken = column.rows(word for word in column if " " in word) > rows / 2
    texts = Guess({"kind": "text"}, f"{distinct} different texts: parts of their words become inputs")
    if spoken and FEW < distinct <= rows / 2:
        return texts
    common = sorted(word for word, count in column.items() if count >= RARE)
    rare = tuple(word for word, count in column.items() if count < RARE)
    kept = column.rows(common)
    if (distinct <= LISTED and kept > rows / 2) or (len(common) <= LISTED and common and 10 * (rows - kept) <= rows):
        rest = f"{len(rare)} rare value{'s' if len(rare) > 1 else ''} left out, which become other" if rare else ""
        return Guess({"kind": "category", "values": common}, rest, rare)
    if rows < MANY:
        return Guess({"kind": "category", "values": sorted(column)}, "few rows: does a value here point to a person?")
    alike = [word for word in column if _BEGINS_AS_NUMBER.match(word)]
    numeric = column.rows(alike) > rows / 2
    asked = f"{alike[0]!r} begins as a number does and has no reading as one: what is it?" if numeric else ""
    if distinct > rows / 2:
        what = 'nearly every row has another text: a name, an identifier? If it is a few words, write kind = "text"'
        return Guess({"kind": "ignore"}, _joined(asked, what))
    return texts._replace(remark=_joined(asked, texts.remark))
