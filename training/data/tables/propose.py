"""Proposal of a schema from one site's table: a guess a column, written as a file that people edit; no torch."""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpeer.exceptions import TaskError, UnknownName
from dpeer.toml_text import comment, key_text, value_text
from dpeer.training.data.tables.decode import as_time
from dpeer.training.data.tables.numerals import ambiguous, as_number, is_code
from dpeer.training.data.tables.schema import MISSING
from dpeer.training.data.tables.sheet import Sheet
from dpeer.training.data.tables.spellings import spelled

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

TARGETS = ("target", "outcome", "label", "class", "y", "diagnosis", "result", "income")
"""Names of columns that are probably to be predicted, the likeliest first."""

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
    """What a column probably is.

    Attributes:
        keys: Its keys in a schema.
        remark: What to look at; empty if it is plain.
    """

    keys: Keys
    remark: str = ""


def guess(name: str, cells: Sequence[str], *, decimal: str) -> Guess:
    """What a column is, from its name and its cells that are no gaps.

    Args:
        name: The column.
        cells: Its texts without the gaps.
        decimal: The table's decimal mark; see `decimal_mark`.
    """
    words = spelled(cells)
    counts = Counter(words[cell] for cell in cells)
    if not counts:
        return Guess({"kind": "ignore"}, "every cell is empty here: what is it at the other sites?")
    if (found := _guess_yes_no(counts)) is not None:
        return found
    values = {cell: as_number(cell, decimal) for cell in counts}
    numbers = {cell: value for cell, value in values.items() if value is not None}
    days = _guess_date(counts) if len(numbers) < len(counts) or _looks_like_days(counts) else None
    if days is not None:
        return days
    double = [cell for cell in counts if ambiguous(cell, decimal) is not None]
    if double and len(numbers) + len(double) == len(counts):
        return _guess_ambiguous(name, double[0], decimal, list(numbers.values()))
    codes = [cell for cell in numbers if is_code(cell, decimal)]
    if codes:
        found = _guess_words(name, counts, [])
        why = f"codes, not numbers: {codes[0]!r} would become {numbers[codes[0]]:g}."
        return found._replace(remark=f"{why} {found.remark}".strip())
    if len(numbers) == len(counts):
        return _guess_number(name, counts, numbers)
    return _guess_words(name, counts, list(numbers.values()), decimal)


def _guess_yes_no(counts: Mapping[str, int]) -> Guess | None:
    words = {word.casefold() for word in counts}
    if words == {"0", "1"}:
        return Guess({"kind": "yes-no", "yes": ["1"], "no": ["0"]}, "0 and 1 only: is 1 yes?")
    if not words <= {*YES, *NO, "1", "0"} or not words & {*YES} or not words & {*NO}:
        return None
    return Guess({"kind": "yes-no", "yes": sorted(words & {*YES, "1"}), "no": sorted(words & {*NO, "0"})})


def _looks_like_days(counts: Mapping[str, int]) -> bool:
    """Whether numbers of eight digits may be days such as 20240131."""
    return all(len(cell) == 8 and cell.isdigit() and "19000101" <= cell <= "21001231" for cell in counts)


def _guess_date(counts: Mapping[str, int]) -> Guess | None:
    found = {one: {cell for cell in counts if as_time(cell, [one]) is not None} for one in DATES}
    fitting = [one for one in DATES if len(found[one]) == len(counts)]
    if not fitting:  # a day, and at times the hour, too
        first = max(DATES, key=lambda one: len(found[one]))
        rest = [one for one in DATES if found[first] | found[one] == counts.keys() and not found[first] & found[one]]
        fitting = [first, rest[0]] if rest else []
        if not fitting:
            return None
    formats = fitting[:1] if len(found[fitting[0]]) == len(counts) else fitting
    moments = [moment for cell in counts if (moment := as_time(cell, formats)) is not None]
    short = any("%y" in one for one in formats)
    if short:  # Python takes 47 for 2047, which lies in the future
        today = datetime.datetime.now()
        moments = [_back(moment) if moment > today else moment for moment in moments]
    # A year more on each side: the first and the last day point to a person.
    ends = [datetime.date(max(min(moments).year - 1, 1), 1, 1), datetime.date(min(max(moments).year + 1, 9999), 12, 31)]
    unsure = {"%d/%m/%Y", "%m/%d/%Y"} <= {*fitting} and len(formats) == 1
    remark = "day/month or month/day? Every date here could be both" if unsure else ""
    if short:
        ends = [datetime.date(max(ends[0].year, ends[1].year - 99), 1, 1), ends[1]]
        remark = (
            f"years have two digits: are they all from {ends[0].year} to {ends[1].year}? The range says the century"
        )
    return Guess({"kind": "date", "format": formats if len(formats) > 1 else formats[0], "range": ends}, remark)


def _back(moment: datetime.datetime) -> datetime.datetime:
    """The same day a century before; the 29th of February may become the 28th."""
    try:
        return moment.replace(year=moment.year - 100)
    except ValueError:
        return moment.replace(year=moment.year - 100, day=28)


def _guess_number(name: str, counts: Mapping[str, int], numbers: Mapping[str, float]) -> Guess:
    values, rows = sorted(set(numbers.values())), sum(counts.values())
    whole = all(value.is_integer() for value in values)
    if PERSON.search(name) and whole:
        return _guess_group(counts)
    consecutive = len(values) >= 20 and len(values) == rows and values[-1] - values[0] == len(values) - 1
    if whole and (consecutive or (IDENTIFIER.search(name) and len(values) > rows / 2)):
        return Guess({"kind": "ignore"}, "looks like a row's number or an identifier")
    keys: Keys = {"kind": "number", "unit": unit_of(name), "range": outward(values[0], values[-1])}
    if whole and len(values) <= FEW and rows > 5 * len(values):
        low, high = keys["range"]
        return Guess(
            {"kind": "category", "values": sorted(numbers, key=lambda cell: (numbers[cell], cell))},
            "few whole numbers: if they are codes, do they mean the same at all sites? If they count or measure "
            f'something, write kind = "number" and range = [{low:g}, {high:g}] in place of values',
        )
    return Guess(keys, "" if keys["unit"] else "in which unit?")


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


def _guess_ambiguous(name: str, cell: str, decimal: str, numbers: Sequence[float]) -> Guess:
    """A column of numbers of which some can be read in two ways: the range is that of the others."""
    first, second = ambiguous(cell, decimal) or ("", "")
    keys: Keys = {"kind": "number", "unit": unit_of(name)}
    if numbers:
        keys["range"] = outward(min(numbers), max(numbers))
    asked = f"is {cell!r} {first} or {second}? Write numbers without marks for thousands, then propose again"
    return Guess(keys, asked)


def _guess_words(name: str, counts: Mapping[str, int], numbers: Sequence[float], decimal: str = ".") -> Guess:
    rows, distinct = sum(counts.values()), len(counts)
    if PERSON.search(name):
        return _guess_group(counts)
    if len(numbers) > 0.9 * distinct and distinct > FEW:
        strange = ", ".join(repr(word) for word in counts if as_number(word, decimal) is None)[:60]
        return Guess(
            {"kind": "number", "unit": unit_of(name), "range": outward(min(numbers), max(numbers))},
            f"some cells are no numbers ({strange}): words for a gap go into missing = [...]",
        )
    spoken = sum(count for word, count in counts.items() if " " in word) > rows / 2
    if spoken and FEW < distinct <= rows / 2:
        return Guess({"kind": "text"}, f"{distinct} different texts: parts of their words become inputs")
    common = sorted(word for word, count in counts.items() if count >= RARE)
    if distinct <= LISTED and sum(counts[word] for word in common) > rows / 2:
        left = distinct - len(common)
        rest = f"{left} rare value{'s' if left > 1 else ''} left out, which become other" if left else ""
        return Guess({"kind": "category", "values": common}, rest)
    if distinct > rows / 2 and rows >= MANY:
        return Guess(
            {"kind": "ignore"},
            'nearly every row has another text: a name, an identifier? If it is a few words, write kind = "text"',
        )
    if rows < MANY:
        return Guess({"kind": "category", "values": sorted(counts)}, "few rows: does a value here point to a person?")
    return Guess({"kind": "text"}, f"{distinct} different texts: parts of their words become inputs")


_MOST_CLASSES = 20

_ABOUT = """\
# What the columns of the table are. All sites use this one file: dpeer start --schema schema.toml, or
# schema = "schema.toml" in the federation file. It holds no rows.
#
# PROPOSED from the data of one site. Review every line before you share it: ranges, values and classes were computed
# from patients' rows (ranges rounded outward, values of fewer than {rare} rows left out). Put in what is plausible
# anywhere, not what one site happens to have.
#
# kind       what it says                                         inputs
# number     unit, range = [low, high], filling for a gap         the number, scaled, and 1 if it is missing
# category   values = [...]; all others become other              one for each value, other, and missing
# yes-no     yes = [words], no = [words]                          1 or -1 (0 for a gap), and 1 if it is missing
# date       format, since (the day 0), range = [first, last]     days, scaled, and 1 if it is missing
# text       a few words; size = how many inputs (64)             hashed parts of words, and 1 if it is missing
# group      rows of one patient, device, ... stay together       none
# ignore                                                          none
"""


class Proposed(NamedTuple):
    """A proposed schema.

    Attributes:
        target: The column to predict, with its name among its keys.
        columns: All others, by name.
    """

    target: Guess
    columns: Mapping[str, Guess]


def propose(sheet: Sheet, target: str | None = None, group: str | None = None) -> Proposed:
    """What the columns of a table probably are.

    Args:
        sheet: The table.
        target: The column to predict; one that is called so, or the last, if None.
        group: The column that says which rows belong together; one that is called so if None.

    Raises:
        UnknownName: A column does not exist.
        TaskError: The table has one column only.
    """
    if len(sheet.header) < 2:
        raise TaskError(f"{sheet.path!r} has one column: one to predict and one or more to learn from are needed")
    for option, name in (("--target", target), ("--group", group)):
        if name is not None and name not in sheet.cells:
            raise UnknownName(f"column of {option}", name, sheet.header, repr(sheet.path))
    chosen = _target(sheet) if target is None else target
    columns: dict[str, Guess] = {}
    grouped = group is not None
    for name in sheet.header:
        if name == chosen:
            continue
        found = Guess({"kind": "group"}) if name == group else guess(name, _filled(sheet, name), decimal=sheet.decimal)
        if found.keys["kind"] == "group" and name != group:
            found = Guess({"kind": "ignore"}) if grouped else found
        grouped = grouped or found.keys["kind"] == "group"
        columns[name] = found
    predicted = _predicted(chosen, _filled(sheet, chosen), sheet.decimal)
    if target is None:
        asked = f"is {chosen!r} what is to be predicted?"
        predicted = predicted._replace(remark=f"{asked} {predicted.remark}".strip())
    return Proposed(predicted, columns)


def _filled(sheet: Sheet, name: str) -> list[str]:
    return [cell for cell in sheet.cells[name] if cell and cell not in MISSING]


def _target(sheet: Sheet) -> str:
    lower = {name.lower(): name for name in sheet.header}
    return next((lower[word] for word in TARGETS if word in lower), sheet.header[-1])


def _predicted(name: str, cells: list[str], decimal: str) -> Guess:
    words = spelled(cells)
    counts = Counter(words[cell] for cell in cells)
    values = {cell: None if is_code(cell, decimal) else as_number(cell, decimal) for cell in counts}
    numbers = [value for value in values.values() if value is not None]
    if len(numbers) == len(counts) > _MOST_CLASSES:
        ends = outward(min(numbers), max(numbers))
        return Guess({"column": name, "kind": "regression", "unit": unit_of(name), "range": ends})
    classes = sorted(counts, key=(lambda cell: values[cell] or 0.0) if len(numbers) == len(counts) else None)
    rare = [word for word in classes if counts[word] < RARE]
    remark = f"few rows are of class {', '.join(map(repr, rare[:5]))}" if rare else ""
    if len(classes) < 2:
        remark = "name all the classes that there can be"
    return Guess({"column": name, "kind": "classification", "classes": classes}, remark)


def as_toml(proposed: Proposed) -> str:
    """A proposed schema as the text of a schema.toml, with its remarks as comments."""
    lines = [
        _ABOUT.format(rare=RARE),
        "format = 1",
        "# Words that stand for a gap in any column; an empty cell always does.",
        f"missing = {value_text(list(MISSING))}",
        "",
        "[target]",
        *_keys(proposed.target),
    ]
    for name, found in proposed.columns.items():
        lines += ["", f"[columns.{key_text(name)}]", *_keys(found)]
    return "\n".join(lines) + "\n"


def _keys(found: Guess) -> list[str]:
    return [*comment(found.remark), *(f"{key} = {value_text(value)}" for key, value in found.keys.items())]
