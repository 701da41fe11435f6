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
    all_numbers,
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


def guess(name: str, cells: Sequence[str], *, decimal: str) -> Guess:
    """What a column is, from its name and its cells that are no gaps.

    A tenth of the cells may be strangers: they do not make another column of it, and are asked about.
    """
    words = spelled(cells)
    counts = Counter(words[cell] for cell in cells)
    if not counts:
        return Guess({"kind": "ignore"}, "every cell is empty here: what is it at the other sites?")
    if (found := _guess_yes_no(counts)) is not None:
        return found
    read = numbers_of(name, counts, decimal)
    plain = sum(not one.how for one in read.single.values())
    days = _guess_date(counts) if plain < len(counts) or _look_like_days(counts) else None
    if days is not None:
        return days
    are_numbers = bool(read.single or read.double) and _few(read.strange, counts)
    if are_numbers and read.double:
        return _guess_ambiguous(name, counts, read)
    codes = [cell for cell, one in read.single.items() if one.code]
    if codes:
        found = _guess_words(name, counts)
        why = f"codes, not numbers: {codes[0]!r} would become {read.single[codes[0]].value:g}."
        return found._replace(remark=f"{why} {found.remark}".strip())
    if not are_numbers or (read.strange and len(read.single) <= FEW):
        return _guess_words(name, counts)
    return _guess_number(name, counts, read)


def _few(strange: Iterable[str], counts: Mapping[str, int]) -> bool:
    """Whether at most a tenth of the cells, or of many different ones, are strangers."""
    strangers, rows = [*strange], sum(counts.values())
    of_many = len(counts) > FEW and 10 * len(strangers) < len(counts)
    return of_many or 10 * sum(counts[word] for word in strangers) <= rows


def _strangers(strange: Collection[str], counts: Mapping[str, int], what: str) -> str:
    """The question about cells that do not fit."""
    if not strange:
        return ""
    count = sum(counts[word] for word in strange)
    verb = f"is no {what}: correct it, or is it" if count == 1 else f"are no {what}: correct them, or are they"
    return f"{count} of {sum(counts.values())} cells {verb} a word for a gap (missing = [...])?"


def _joined(*remarks: str) -> str:
    return "; ".join(one.rstrip(".") for one in remarks if one)


def _guess_yes_no(counts: Mapping[str, int]) -> Guess | None:
    yes_or_no = {*YES, *NO, "1", "0"}
    known = {word for word in counts if word.casefold() in yes_or_no}
    strange = tuple(word for word in counts if word not in known)
    words = {word.casefold() for word in known}
    if not _few(strange, counts):
        return None
    remark = _strangers(strange, counts, "yes or no")
    if words == {"0", "1"} and not any(map(numbers, strange)):
        return Guess({"kind": "yes-no", "yes": ["1"], "no": ["0"]}, _joined("0 and 1 only: is 1 yes?", remark), strange)
    if not words & {*YES} or not words & {*NO}:
        return None
    keys = {"kind": "yes-no", "yes": sorted(words & {*YES, "1"}), "no": sorted(words & {*NO, "0"})}
    return Guess(keys, remark, strange)


def _look_like_days(counts: Mapping[str, int]) -> bool:
    """Whether numbers of eight digits may be days such as 20240131."""
    strange = [cell for cell in counts if not (len(cell) == 8 and cell.isdigit() and "19000101" <= cell <= "21001231")]
    return _few(strange, counts)


def _guess_date(counts: Mapping[str, int]) -> Guess | None:
    digits = [cell for cell in counts if plainly(cell)[0][:1].isdigit()]
    if not digits or not _few(counts.keys() - {*digits}, counts):
        return None
    found = {one: {cell for cell in digits if dates(cell, [one])} for one in DATES}
    formats, both = _formats(found, counts)
    if not formats:
        return None
    moments = {cell: read.popitem()[0] for cell in digits if (read := dates(cell, formats))}
    short = any("%y" in one for one in formats)
    if short:  # Python takes 47 for 2047, which lies in the future
        today = datetime.datetime.now()
        moments = {cell: _back(moment) if moment > today else moment for cell, moment in moments.items()}
    gaps = _far_off({cell: float(moment.toordinal()) for cell, moment in moments.items()}, counts, _FAR_DAYS)
    inner = [moment for cell, moment in moments.items() if cell not in gaps]
    # A year more on each side: the first and the last day point to a person.
    ends = [datetime.date(max(min(inner).year - 1, 1), 1, 1), datetime.date(min(max(inner).year + 1, 9999), 12, 31)]
    strange = tuple(cell for cell in counts if cell not in moments)
    remark = ""
    if both:
        remark = "day/month or month/day? Every date here could be both"
    elif double := [cell for cell in digits if len(dates(cell, formats)) > 1]:
        remark = f"{len(double)} dates such as {double[0]!r} fit {' and '.join(formats)}: keep the right one."
    if short:
        ends = [datetime.date(max(ends[0].year, ends[1].year - 99), 1, 1), ends[1]]
        remark = (
            f"years have two digits: are they all from {ends[0].year} to {ends[1].year}? The range says the century"
        )
    remark = _joined(_strangers(strange, counts, "date"), _asked_gaps(gaps), remark)
    keys = {"kind": "date", "format": formats if len(formats) > 1 else formats[0], "range": ends}
    return Guess(keys, remark, strange)


def _formats(found: Mapping[str, set[str]], counts: Mapping[str, int]) -> tuple[list[str], bool]:
    """The formats of dates, perhaps none; and whether day and month could be the other way round in all of them."""

    def rows(cells: Iterable[str]) -> int:
        return sum(counts[cell] for cell in cells)

    first = max(found, key=lambda one: rows(found[one]))
    most = rows(found[first])
    swapped = {"%d/%m/%Y", "%m/%d/%Y"}
    both = first in swapped and all(rows(found[one]) == most for one in swapped)
    if most == sum(counts.values()):
        return [first], both
    # A day, and at times the hour, too.
    apart = {
        one: cells for one, cells in found.items() if cells and not found[first] & cells and {first, one} != swapped
    }
    second = max(apart, key=lambda one: rows(apart[one]), default=None)
    if second is not None and _few(counts.keys() - found[first] - apart[second], counts):
        return [first, second], False
    if _few(counts.keys() - found[first], counts):
        return [first], both
    if most and _few(counts.keys() - set().union(*(found[one] for one in swapped)), counts):
        return sorted(swapped), False
    return [], False


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


def numbers_of(name: str, counts: Mapping[str, int], decimal: str) -> Numbers:
    """The readings of a column's cells as numbers of one unit: that of most cells with one, else that of its name."""
    named = unit_of(name)
    plain = all_numbers([*counts], decimal, codes=False)
    if plain is not None:
        values = zip(counts, plain.tolist(), strict=True)
        return Numbers(named, {cell: Reading(value, cell) for cell, value in values}, {}, ())
    every = {cell: numbers(cell, decimal, named) for cell in counts}
    units: Counter[str] = Counter()
    for cell, found in every.items():
        if len(found) == 1 and found[0].unit:
            units[found[0].unit] += counts[cell]
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
    return Numbers(unit, single, double, tuple(cell for cell in counts if cell not in single and cell not in double))


def _guess_number(name: str, counts: Mapping[str, int], read: Numbers) -> Guess:
    of_cells = {cell: one.value for cell, one in read.single.items()}
    values, rows = sorted(set(of_cells.values())), sum(counts.values())
    whole = all(value.is_integer() for value in values)
    if PERSON.search(name) and whole:
        return _guess_group(counts)
    consecutive = len(values) >= 20 and len(values) == rows and values[-1] - values[0] == len(values) - 1
    if whole and (consecutive or (IDENTIFIER.search(name) and len(values) > rows / 2)):
        return Guess({"kind": "ignore"}, "looks like a row's number or an identifier")
    ends = {*values[:_MOST_FAR], *values[-_MOST_FAR:]}
    nines = {value for cell, value in of_cells.items() if value in ends and _NINES.fullmatch(cell)}
    gaps = _far_off(of_cells, counts, nines)
    inner = [value for cell, value in of_cells.items() if cell not in gaps]
    keys: Keys = {"kind": "number", "unit": read.unit, "range": outward(min(inner), max(inner))}
    hows: Counter[str] = Counter()
    for cell, one in read.single.items():
        hows[one.how] += counts[cell]
    del hows[""]
    said = "; ".join(f"{count} of {rows} cells read {how}" for how, count in hows.items())
    if any(one.bound for one in read.single.values()):
        keys["limits"] = True
    elif whole and len(values) <= FEW and rows > 5 * len(values) and not hows:
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
    remark = _joined(_strangers(read.strange, counts, "number"), _asked_gaps(gaps), said, unit)
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


def _guess_group(counts: Mapping[str, int]) -> Guess:
    if len(counts) == sum(counts.values()):
        return Guess({"kind": "ignore"}, "an identifier, another in each row")
    return Guess({"kind": "group"}, "rows of one of these stay together, in training or in test")


def _guess_ambiguous(name: str, counts: Mapping[str, int], read: Numbers) -> Guess:
    """A column of numbers of which some can be read in two ways: the range is that of the others."""
    cell, both = next(iter(read.double.items()))
    asked = f"is {cell!r} {' or '.join(both)}? {advice(cell).capitalize()}, then propose again."
    if "/" in cell and len(counts) <= FEW < 2 * sum(counts.values()):  # such as genotypes
        found = _guess_words(name, counts)
        return found._replace(remark=_joined(asked, found.remark))
    keys: Keys = {"kind": "number", "unit": read.unit}
    if read.single:
        values = [one.value for one in read.single.values()]
        keys["range"] = outward(min(values), max(values))
    return Guess(keys, _joined(_strangers(read.strange, counts, "number"), asked), read.strange)


_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_BEGINS_AS_NUMBER = re.compile(r"[~<>\u2264\u2265+-]?\s?[0-9]")


def _guess_words(name: str, counts: Mapping[str, int]) -> Guess:
    found = _guess_text(name, counts)
    commas = [word for word in counts if _DECIMAL_COMMA.fullmatch(word)]
    if sum(counts[word] for word in commas) <= sum(counts.values()) / 2:
        return found
    asked = f"is {commas[0]!r} {commas[0].replace(',', '.')}? The file has commas between its columns, or numbers with"
    return found._replace(remark=f"{asked} points, too: write points, then propose again")


def _guess_text(name: str, counts: Mapping[str, int]) -> Guess:
    rows, distinct = sum(counts.values()), len(counts)
    if PERSON.search(name):
        return _guess_group(counts)
    spoken = sum(count for word, count in counts.items() if " " in word) > rows / 2
    texts = Guess({"kind": "text"}, f"{distinct} different texts: parts of their words become inputs")
    if spoken and FEW < distinct <= rows / 2:
        return texts
    common = sorted(word for word, count in counts.items() if count >= RARE)
    rare = tuple(word for word, count in counts.items() if count < RARE)
    kept = sum(counts[word] for word in common)
    if (distinct <= LISTED and kept > rows / 2) or (len(common) <= LISTED and common and 10 * (rows - kept) <= rows):
        rest = f"{len(rare)} rare value{'s' if len(rare) > 1 else ''} left out, which become other" if rare else ""
        return Guess({"kind": "category", "values": common}, rest, rare)
    if rows < MANY:
        return Guess({"kind": "category", "values": sorted(counts)}, "few rows: does a value here point to a person?")
    alike = next((word for word in counts if _BEGINS_AS_NUMBER.match(word)), "")
    numeric = sum(count for word, count in counts.items() if _BEGINS_AS_NUMBER.match(word)) > rows / 2
    asked = f"{alike!r} begins as a number does and has no reading as one: what is it?" if numeric else ""
    if distinct > rows / 2:
        what = 'nearly every row has another text: a name, an identifier? If it is a few words, write kind = "text"'
        return Guess({"kind": "ignore"}, _joined(asked, what))
    return texts._replace(remark=_joined(asked, texts.remark))
