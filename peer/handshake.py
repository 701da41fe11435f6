"""Whether two peers belong to the same federation: a comparison of two hellos. No I/O."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

from dpeer.peer.schedule import Schedule
from dpeer.peer.wire import Hello

_ABSENT = "not set"


def mismatch(ours: Hello, theirs: Hello, schedule: Schedule) -> str | None:
    """Why the two must not train together, naming the field and both values; None when they may.

    Args:
        ours: What this peer says of itself.
        theirs: What the other side says.
        schedule: In which rounds the two exchange bodies.
    """
    them = f"rank {theirs.rank}"
    if ours.protocol != theirs.protocol:
        return f"protocol version: {ours.protocol} here, {theirs.protocol} at {them}: install the same dpeer on both"
    field = _first_difference(ours.fingerprint, theirs.fingerprint)
    if field is not None:
        here, there = ours.fingerprint.get(field, _ABSENT), theirs.fingerprint.get(field, _ABSENT)
        return f"{field[:60]}: {_short(here)} here, {_short(there)} at {them}: use the same settings on both"
    if ours.manifest != theirs.manifest:
        return _manifest_difference(ours.manifest, theirs.manifest, them)
    if ours.digest != theirs.digest:
        return (
            f"initial body: {ours.digest[:12]} here, {theirs.digest[:12]} at {them}: everyone must start from the same "
            "values, those of frozen parameters included; build the model first thing in the task factory, before "
            "touching data or random numbers"
        )
    if not schedule.fits(ours.next_round, theirs.rank, theirs.next_round):
        return (
            f"round: {ours.next_round} here, {theirs.next_round} at {them}: they are more than one round apart; "
            "stop all peers together and resume each from its own folder"
        )
    return None


def in_short(ours: Hello, theirs: Hello) -> str:
    """What differs between two that do not fit, for other neighbors: names that this peer has itself, no values."""
    if ours.protocol != theirs.protocol:
        return "protocol version differs"
    field = _first_difference(ours.fingerprint, theirs.fingerprint)
    if field is not None:
        return f"{field} differs" if field in ours.fingerprint else "a setting differs that is not known here"
    if ours.manifest != theirs.manifest:
        return "the parameters of the body differ"
    return "the initial body differs" if ours.digest != theirs.digest else "they are too many rounds apart"


def _first_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
    for field in [*ours, *theirs]:
        if ours.get(field, _ABSENT) != theirs.get(field, _ABSENT):
            return field
    return None


def _manifest_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any], them: str) -> str:
    here, there = _entries(ours), _entries(theirs)
    name = _first_difference(here, there)
    if name is None:
        if ours.get("extras") != theirs.get("extras"):
            return (
                f"values beside the body: {_short(ours.get('extras', _ABSENT))} here, "
                f"{_short(theirs.get('extras', _ABSENT))} at {them}: use the same algorithm on both"
            )
        name = _first_difference(ours, theirs) or "manifest"
        here, there = dict(ours), dict(theirs)
    return (
        f"body parameter {name[:60]} (shape): {_short(here.get(name, _ABSENT))} here, "
        f"{_short(there.get(name, _ABSENT))} at {them}: use the same model and head on both"
    )


def _entries(manifest: Mapping[str, Any]) -> dict[str, Any]:
    parameters = manifest.get("parameters")
    if not isinstance(parameters, list):
        return {}
    return {str(entry.get("name")): entry.get("shape") for entry in parameters if isinstance(entry, dict)}


def _short(value: Any) -> str:
    """A value's text, shortened for a message; quick, however large the value that came over the wire is."""
    return _REPR.repr(value)


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60
