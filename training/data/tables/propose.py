"""Proposal of a schema from one site's table: a guess a column, written as a file that people edit; no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dpeer.exceptions import TaskError, UnknownName
from dpeer.toml_text import comment, key_text, value_text
from dpeer.training.data.tables.guess import RARE, Guess, guess, numbers_of, outward
from dpeer.training.data.tables.schema import MISSING
from dpeer.training.data.tables.sheet import Sheet
from dpeer.training.data.tables.spellings import spelled

TARGETS = ("target", "outcome", "label", "class", "y", "diagnosis", "result", "income")
"""Names of columns that are probably to be predicted, the likeliest first."""

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
#            limits = true reads <1.0 and >500                    and -1 or 1 for such a bound
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
        missing: Words that stand for a gap in any column.
    """

    target: Guess
    columns: Mapping[str, Guess]
    missing: Sequence[str] = MISSING


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
    read = numbers_of(name, counts, decimal)
    values = {cell: one.value for cell, one in read.single.items() if not one.code and not one.bound}
    if len(values) == len(counts) > _MOST_CLASSES:
        ends = outward(min(values.values()), max(values.values()))
        return Guess({"column": name, "kind": "regression", "unit": read.unit, "range": ends})
    numeric = len(values) == len(counts)
    classes = sorted(counts, key=values.__getitem__ if numeric else None)
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
        f"missing = {value_text(list(proposed.missing))}",
        "",
        "[target]",
        *_keys(proposed.target),
    ]
    for name, found in proposed.columns.items():
        lines += ["", f"[columns.{key_text(name)}]", *_keys(found)]
    return "\n".join(lines) + "\n"


def _keys(found: Guess) -> list[str]:
    return [*comment(found.remark), *(f"{key} = {value_text(value)}" for key, value in found.keys.items())]
