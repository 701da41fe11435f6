"""Whether two peers belong to the same federation: a comparison of two hellos. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dpeer.peer.core.fingerprint_diff import ABSENT, difference, first_difference, short
from dpeer.peer.core.wire import Hello

Names = Mapping[str, Mapping[str, str]]

_ADVICE = {
    "schema": "use the same schema.toml on both",
    "input columns": "call the columns alike on both, or say with columns= which are inputs",
    "classes": "name all classes on both with classes=",
    "initial weights": "give both the same file with --init-from",
    "order of the classes": "give classes= in the same order on both",
}
"""By field, what to do where peers differ in it."""


def mismatch(ours: Hello, theirs: Hello, rounds: int, names: Names = MappingProxyType({})) -> str | None:
    """Why the two must not train together, naming the field and both values; None when they may.

    Args:
        ours: What this peer says of itself.
        theirs: What the other side says.
        rounds: How many rounds the run has.
        names: As in `PeerConfig`.
    """
    them = f"rank {theirs.rank}"
    if ours.protocol != theirs.protocol:
        return f"protocol version: {ours.protocol} here, {theirs.protocol} at {them}: install the same dpeer on both"
    field = first_difference(ours.fingerprint, theirs.fingerprint)
    if field is not None:
        here, there = ours.fingerprint.get(field, ABSENT), theirs.fingerprint.get(field, ABSENT)
        said = difference(field, here, there, them, names.get(field))
        return f"{said}: {_ADVICE.get(field, 'use the same settings on both')}"
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


def in_short(ours: Hello, theirs: Hello) -> str:
    """What differs between two that do not fit, for other neighbors: names that this peer has itself, no values."""
    if ours.protocol != theirs.protocol:
        return "protocol version differs"
    field = first_difference(ours.fingerprint, theirs.fingerprint)
    if field is not None:
        return f"{field} differs" if field in ours.fingerprint else "a setting differs that is not known here"
    if ours.manifest != theirs.manifest:
        return "the parameters of the body differ"
    return "the initial body differs" if ours.digest != theirs.digest else "it has run more rounds than there are"


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
