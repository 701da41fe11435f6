"""Readiness of a peer: whether it has mixed with a neighbor within its last rounds, for probes and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WITHIN = 3
"""Rounds within which a ready peer has mixed, by default."""

STALE = 10.0
"""Seconds after which an event loop that has given no sign is taken for blocked."""

_NOT_IN_ROUNDS: Mapping[str, str] = {
    "starting": "it starts",
    "meet": "it waits for its neighbors, before the start",
    "ended": "its rounds are over",
}
"""By phase, why a peer is in no round."""


def unready(snapshot: Mapping[str, Any], within: int = WITHIN) -> str | None:
    """Why a running peer takes no part in the federation; None if it does.

    A peer that is alive and has not mixed for weeks looks healthy to a probe that asks whether its process answers.

    Args:
        snapshot: A `dpeer.peer.snapshot.Snapshot` as plain values.
        within: The number of its last completed rounds in one of which it has mixed a neighbor's body.
    """
    if (why := _NOT_IN_ROUNDS.get(snapshot["phase"])) is not None:
        return why
    if snapshot["phase"] == "pause":
        return f"it pauses: {snapshot['why']}" if snapshot["why"] else "it pauses"
    if snapshot["sits_out"]:
        return "it sits out rounds that the others ran without it"
    if not snapshot.get("mixes", True):
        return None
    mixed, completed = snapshot.get("mixed_round"), snapshot["completed"]
    if mixed is None:
        return f"it has mixed in none of {completed} rounds" if completed else "it has completed no round yet"
    if completed - mixed > within:
        return f"it has mixed in none of the last {completed - mixed - 1} rounds (since round {mixed + 1})"
    return None
