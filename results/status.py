"""How a run ended, from files that may be of different ages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Left = tuple[Mapping[int, Mapping[str, Any]], Mapping[str, Any]]
"""A peer's lines of metrics.jsonl by round, and its summary."""


def find_status(summary: Mapping[str, Any], peers: Mapping[int, Left]) -> tuple[str, bool]:
    """How a run ended, and whether its summary.json speaks of what the peers' files show.

    A run that is resumed or done again leaves the summary of the earlier one in place until it ends.

    Args:
        summary: summary.json over all peers; empty if there is none.
        peers: What each peer left.

    Returns:
        done, stopped, failed or unfinished (running, or killed); and whether the summary counts.
    """
    if summary:
        if any(_went_on(summary, rank, *left) for rank, left in peers.items()):
            return "unfinished", False
        return str(summary.get("status", "done")), True
    if not all(own for _, own in peers.values()):
        return "unfinished", False
    # `dpeer start` leaves no summary over all peers: theirs were brought together by hand, maybe not all of them.
    return ("done" if all(own.get("status", "done") == "done" for _, own in peers.values()) else "stopped"), False


def _went_on(
    summary: Mapping[str, Any], rank: int, entries: Mapping[int, Mapping[str, Any]], own: Mapping[str, Any]
) -> bool:
    counted = summary.get("completed_rounds")
    said = counted[rank] if isinstance(counted, list) and rank < len(counted) else None
    # A peer that was killed has no summary either, and counts as null.
    return not own and bool(entries) and said is not None and max(entries) + 1 != said
