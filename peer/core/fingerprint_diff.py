"""Saying how two fingerprints differ, where hashes stand for names: by the names of one's own. No I/O."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

ABSENT = "not set"
_LISTED = 8


def first_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """The first field in which two tables differ; None if they are equal."""
    for field in [*ours, *theirs]:
        if ours.get(field, ABSENT) != theirs.get(field, ABSENT):
            return field
    return None


def difference(field: str, here: Any, there: Any, them: str, names: Mapping[str, str] | None) -> str:
    """How two values of a field differ, on one line.

    Args:
        field: Its name.
        here: This peer's value.
        there: The other one.
        them: Whose the other one is ("rank 1").
        names: What the keys of `here` stand for, if they are hashes of names; None if they are not.
    """
    if names is None:
        return f"{field[:60]}: {short(here)} here, {short(there)} at {them}"
    if not (isinstance(here, Mapping) and isinstance(there, Mapping)):
        return f"{field[:60]}: {_counted(here)} here, {_counted(there)} at {them}"
    own = [(key, names.get(key, key)) for key in here]
    otherwise = [name for key, name in own if key in there and there[key] != here[key]]
    lacking = [name for key, name in own if key not in there]
    besides = sum(key not in here for key in there)
    said = [
        *([f"{listed(otherwise)} {_is(otherwise)} not defined alike here and at {them}"] if otherwise else []),
        *([f"{listed(lacking)} {_is(lacking)} here and not at {them}"] if lacking else []),
        *([f"{them} has {besides} that {'is' if besides == 1 else 'are'} not here"] if besides else []),
    ]
    return f"{field[:60]}: {', '.join(said)}"


def listed(names: Sequence[str]) -> str:
    """Names in quotes, the first few of them."""
    shown = ", ".join(repr(name) for name in names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _counted(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{len(value)} of them"
    return ABSENT if value is None else short(value)


def short(value: Any) -> str:
    """A value's text, shortened for a message; quick, however large the value that came over the wire is."""
    return _REPR.repr(value)


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60
