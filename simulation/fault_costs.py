"""What the faults of a simulation have cost one rank, from its metrics.jsonl."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dpeer.results.files import rank_folder
from dpeer.results.reading import read_entries


def suffered(
    out: Path,
    rank: int,
    active: Callable[[int], bool],
    rounds: int,
    *,
    status: str,
    error: str | None,
    restarts: int,
    completed_at: Mapping[int, float],
) -> dict[str, Any]:
    """A rank's entry in summary.json.

    Args:
        out: The run folder.
        rank: The rank.
        active: Whether the rank takes part in a round, faults aside.
        rounds: How many rounds there are.
        status: done; gone, left or failed if it is not there at the end; stopped if the run was.
        error: Why it failed; None if it did not.
        restarts: How often it began again.
        completed_at: By round, when it was complete, in rounds' time.
    """
    entries = read_entries(rank_folder(out, rank))
    trained = [entry for entry in entries if entry.get("active")]
    return {
        "rank": rank,
        "status": status,
        "error": error,
        "restarts": restarts,
        "completed_rounds": len(entries),
        "completed_at": [completed_at.get(entry["round"]) for entry in entries],
        "rounds_trained": len(trained),
        "sat_out": [entry["round"] for entry in entries if not entry.get("active") and active(entry["round"])],
        "rounds_not_run": rounds - len(entries),
        "bodies_missed": sum(len(entry.get("missed", ())) for entry in trained),
        "missed_by_round": {str(entry["round"]): entry["missed"] for entry in trained if entry.get("missed")},
    }
