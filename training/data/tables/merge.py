"""Merge of several sites' schemas into one: ranges widened, values united, and what differs asked; no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.training.data.tables.guess import Guess, Keys
from dpeer.training.data.tables.propose import Proposed
from dpeer.training.data.tables.schema import Schema

_UNITED = ("missing", "values", "yes", "no", "format", "classes")


def merge(schemas: Mapping[str, Schema]) -> Proposed:
    """One schema of several, with a remark where they differ: the first one's word counts there.

    Args:
        schemas: By file, the schema of a site.

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
