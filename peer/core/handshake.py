"""Handshake: whether the hello of another peer fits this peer's, or in which field it differs; no I/O."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dpeer.peer.core.wire import Hello

ABSENT = "not set"
_LISTED = 8

Names = Mapping[str, Mapping[str, str]]

_COMPRESS = "give both the same --compress"
_ADVICE = {
    "compress": _COMPRESS,
    "codec's source": _COMPRESS,
    "schema": "use the same schema.toml on both",
    "input columns": "call the columns alike on both, or say with columns= which are inputs",
    "classes": "name all classes on both with classes=",
    "initial weights": "give both the same file with --init-from",
    "order of the classes": "give classes= in the same order on both",
}
"""The remedy where peers differ, by field."""


def mismatch(ours: Hello, theirs: Hello, rounds: int, names: Names = MappingProxyType({})) -> str | None:
    """Why two must not train together in a run of so many rounds, with field and both values; None when they may."""
    them = f"rank {theirs.rank}"
    if ours.protocol != theirs.protocol:
        older = "here" if ours.protocol < theirs.protocol else f"at {them}"
        return f"protocol: {ours.protocol} here, {theirs.protocol} at {them}: install a later dpeer {older}"
    field = first_difference(ours.fingerprint, theirs.fingerprint)
    if field is not None:
        here, there = ours.fingerprint.get(field, ABSENT), theirs.fingerprint.get(field, ABSENT)
        found = difference(field, here, there, them, names.get(field))
        return f"{found}: {_ADVICE.get(field, 'use the same settings on both')}"
    if ours.manifest != theirs.manifest:
        return _manifest_difference(ours.manifest, theirs.manifest, them)
    if ours.digest != theirs.digest:
        return (
            f"initial body: {ours.digest[:12]} here, {theirs.digest[:12]} at {them}: everyone must start from the same "
            "values, those of frozen parameters included; build the model first thing in the task factory, before "
            "touching data or random numbers"
        )
    if theirs.next_round > rounds:
        return (
            f"round: {them} has completed {theirs.next_round} rounds, more than the {rounds} of this run: give "
            "both the same --rounds"
        )
    return None


def _manifest_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any], them: str) -> str:
    here, there = _entries(ours), _entries(theirs)
    name = first_difference(here, there)
    if name is None:
        if ours.get("extras") != theirs.get("extras"):
            return (
                f"values beside the body: {short(ours.get('extras', ABSENT))} here, "
                f"{short(theirs.get('extras', ABSENT))} at {them}: use the same algorithm on both"
            )
        name = first_difference(ours, theirs) or "manifest"
        here, there = dict(ours), dict(theirs)
    return (
        f"body parameter {name[:60]} (shape): {short(here.get(name, ABSENT))} here, "
        f"{short(there.get(name, ABSENT))} at {them}: use the same model and head on both"
    )


def _entries(manifest: Mapping[str, Any]) -> dict[str, Any]:
    parameters = manifest.get("parameters")
    if not isinstance(parameters, list):
        return {}
    return {str(entry.get("name")): entry.get("shape") for entry in parameters if isinstance(entry, dict)}


def first_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    """The first field in which two tables differ; None if they are equal."""
    for field in [*ours, *theirs]:
        if ours.get(field, ABSENT) != theirs.get(field, ABSENT):
            return field
    return None


def difference(field: str, here: Any, there: Any, them: str, names: Mapping[str, str] | None) -> str:
    """Difference of two values of a field, on one line.

    Args:
        field: Its name.
        here: This peer's value.
        there: The other one.
        them: Owner of the other value ("rank 1").
        names: What the keys of `here` stand for, if they are hashes of names; None if they are not.
    """
    if names is None or not (isinstance(here, Mapping) and isinstance(there, Mapping)):
        return f"{field[:60]}: {short(here)} here, {short(there)} at {them}"
    found = [names.get(key, key) for key, value in here.items() if there.get(key) != value]
    if not found:
        return f"{field[:60]}: {len(there) - len(here)} more at {them}"
    return f"{field[:60]}: {listed(found)} missing or different at {them}"


def listed(names: Sequence[str]) -> str:
    """Names in quotes, the first few of them."""
    shown = ", ".join(repr(name) for name in names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def short(value: Any) -> str:
    """A value's text, shortened for a message; quick, however large the value that came over the wire is."""
    return _REPR.repr(value)


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60
