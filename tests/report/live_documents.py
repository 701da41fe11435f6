"""Status documents of whole federations, as peers and dashboards make them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from dpeer.peer.snapshot import Awaited, NeighborSnapshot, Snapshot

Liveness = Callable[[int], tuple[str, str]]


def history(rank: int, rounds: int, **more: Any) -> list[dict[str, Any]]:
    """The lines of a peer's rounds: accuracy rises, disagreement falls, a round takes 20 s and more by rank."""
    return [
        {
            "round": number, "round_seconds": 20.0 + rank, "accuracy": 1 - 0.5 * math.exp(-number / 10) - 0.01 * rank,
            "test_loss": math.exp(-number / 10), "train_loss": 0.1, "disagreement": 0.5 * 0.95**number,
            "heard": [], "missed": [],
        } | more
        for number in range(rounds)
    ]  # fmt: skip


def running(
    rank: int, size: int, *, hops: int = 1, completed: int = 12, rounds: int = 20, unready: str | None = None,
    waits: Mapping[int, str] | None = None, liveness: Liveness = lambda rank: ("alive", ""),
    lines: list[dict[str, Any]] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """A running peer on a ring, on which neighbors are up to `hops` ranks apart."""
    others = sorted({(rank + step) % size for step in range(-hops, hops + 1)} - {rank})
    given: dict[str, Any] = {
        "phase": "collect" if waits else "work", "rounds": rounds, "completed": completed,
        "waits_for": tuple(Awaited(other, why) for other, why in (waits or {}).items()),
        "neighbors": tuple(NeighborSnapshot(other, liveness(other)[0], completed, 0.5, liveness(other)[1])
                           for other in others),
        "mixed": tuple(others), "mixed_round": completed - 1 if completed else None, "mixed_seconds": 3.0,
        "round_seconds": 20.0 + rank, "left_seconds": 20.0 * (rounds - completed), "disk_free": 10**9 * (rank + 5),
        "checkpoint_seconds": 3.0,
    }  # fmt: skip
    found = asdict(Snapshot(rank=rank, pid=100 + rank, **(given | more)))
    return {
        "folder": f"run/rank-{rank}", "running": True, "age_seconds": 0.5, "unready": unready, "disagreement": None,
        "history": history(rank, completed) if lines is None else lines,
    } | found  # fmt: skip


def stopped(rank: int, state: str = "does not run: stopped", completed: int | None = 7) -> dict[str, Any]:
    """A peer that does not run."""
    return {
        "folder": f"run/rank-{rank}", "running": False, "state": state, "completed": completed, "rounds": 20,
        "checkpoint_seconds": 400.0, "age_seconds": 0.0, "unready": state, "disagreement": None, "history": [],
    }  # fmt: skip


def document(*peers: Any) -> dict[str, Any]:
    """The document of these peers, as it comes out of JSON."""
    found: dict[str, Any] = json.loads(json.dumps({"time": 1000.0, "peers": list(peers)}))
    return found
