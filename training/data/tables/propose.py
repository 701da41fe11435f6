"""Proposal of a schema, as a file that people edit: from one site's table, or from several sites' schemas; no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dpeer.exceptions import ConfigurationError, TaskError, UnknownName
from dpeer.toml_text import comment, key_text, value_text
from dpeer.training.data.tables.guess import RARE, Cells, Guess, Keys, guess, numbers_of, outward
from dpeer.training.data.tables.schema import MISSING, Schema
from dpeer.training.data.tables.sheet import Sheet

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
    """A proposed schema; the target has its name among its keys, the other columns go by name."""

    target: Guess
    columns: Mapping[str, Guess]
    missing: Sequence[str] = MISSING


def propose(sheet: Sheet, target: str | None = None, group: str | None = None) -> Proposed:
    """What the columns of a table probably are.

    Without a target one of `TARGETS` is to be predicted, or the last; without a group a column with such a name is it.

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
    counts = Cells.of(cells)
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
        *_lines(proposed.target),
    ]
    for name, found in proposed.columns.items():
        lines += ["", f"[columns.{key_text(name)}]", *_lines(found)]
    return "\n".join(lines) + "\n"


def _lines(found: Guess) -> list[str]:
    return [*comment(found.remark), *(f"{key} = {value_text(value)}" for key, value in found.keys.items())]


_UNITED = ("missing", "values", "yes", "no", "format", "classes")


def merge(schemas: Mapping[str, Schema]) -> Proposed:
    """One schema of several sites', by file, with a remark where they differ: the first one's word counts there.

    Raises:
        ConfigurationError: They predict another column, or a number and a class.
    """
    (first, one), *others = schemas.items()
    for file, other in others:
        for key in ("column", "kind"):
            mine, theirs = getattr(one.target, key), getattr(other.target, key)
            if mine != theirs:
                raise ConfigurationError(f"target.{key} is {mine!r} in {first} and {theirs!r} in {file}: predict one")
    target = _merged({file: _keys(schema.target) for file, schema in schemas.items()})
    columns = {}
    for name in dict.fromkeys(name for schema in schemas.values() for name in schema.columns):
        found = {file: _keys(schema.columns[name]) for file, schema in schemas.items() if name in schema.columns}
        columns[name] = _merged(found, len(schemas))
    return Proposed(target, columns, _united([schema.missing for schema in schemas.values()]))


def _keys(part: Any) -> Keys:
    return {key: value for key, value in part.model_dump().items() if value not in (None, (), "", False)}


def _united(lists: Sequence[Sequence[str]]) -> list[str]:
    return [*dict.fromkeys(word for words in lists for word in words)]


def _merged(found: Mapping[str, Keys], schemas: int = 0) -> Guess:
    """The keys of a column; kinds that are not the first one's are asked about and give nothing to it."""
    asked = []
    if len(found) < schemas:
        asked.append(f"only in {', '.join(found)}: do the others have it?")
    kinds = {file: keys["kind"] for file, keys in found.items()}
    # A column that is empty at one site is ignored there, and that says nothing about the others.
    kind = next((one for one in kinds.values() if one != "ignore"), "ignore")
    if len({*kinds.values()}) > 1:
        asked.append(f"which kind? {_by_file(kinds)}")
    same = {file: keys for file, keys in found.items() if keys["kind"] == kind}
    merged: Keys = {}
    for key in dict.fromkeys(key for keys in same.values() for key in keys):
        values = {file: keys[key] for file, keys in same.items() if key in keys}
        if key == "range":
            merged[key] = [min(ends[0] for ends in values.values()), max(ends[1] for ends in values.values())]
        elif key in _UNITED:
            merged[key] = _united([*values.values()])
        else:
            merged[key] = next(iter(values.values()))
            if len({*values.values()}) > 1 or (key == "unit" and len(values) < len(same)):
                asked.append(f"which {key}? {_by_file({file: keys.get(key, '') for file, keys in same.items()})}")
    if both := {word.casefold() for word in merged.get("yes", ())} & {word.casefold() for word in merged.get("no", ())}:
        asked.append(f"is {min(both)!r} yes or no?")
    if "classes" in merged and len({tuple(keys["classes"]) for keys in same.values()}) > 1:
        asked.append("are these all classes, in the right order?")
    return Guess(merged, " ".join(asked))


def _by_file(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{value!r} in {file}" for file, value in values.items())
