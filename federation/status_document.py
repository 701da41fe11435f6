"""The status document: what `/status.json` answers, and what metrics and pages are drawn from; plain JSON values."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpeer.federation.readiness import WITHIN, unready
from dpeer.results.json_fields import number, wholes

KEPT = 200
"""Rounds of a peer's history."""

STALE = 10.0
"""Seconds after which an event loop that has not filled its board is taken for blocked."""

WITHHELD = "see the peer's log"
"""What stands in place of a reason that is for the peer's own host alone."""

Document = Mapping[str, Any]
"""{"time": Unix seconds, "peers": [{...}, ...]}; docs/files.md lists a peer's fields."""

FIGURES = ("accuracy", "test_loss", "train_loss")
"""Fields of a record that are releases of the data where privacy is on."""


def document(peers: Iterable[Mapping[str, Any]]) -> Document:
    """The document of these peers, as it is now."""
    return {"time": time.time(), "peers": list(peers)}


def running_peer(
    folder: str, snapshot: Mapping[str, Any], history: Sequence[Mapping[str, Any]], *, age: float = 0.0
) -> dict[str, Any]:
    """A running peer in the document.

    Args:
        folder: The name of its rank's folder.
        snapshot: A `dpeer.peer.snapshot.Snapshot` as plain values.
        history: Its last rounds, each as `history_line` makes it.
        age: Seconds since the snapshot was taken.
    """
    found = {"folder": folder, "running": True, "disagreement": None, **_for_others(snapshot), "age_seconds": age}
    return found | {"unready": why_unready(found), "history": list(history)}


def _for_others(snapshot: Mapping[str, Any]) -> Mapping[str, Any]:
    """A snapshot whose reasons name no address of another peer, and no setting, such as its classes."""
    ranks = {*snapshot.get("withheld", ())}
    if not ranks:
        return snapshot
    return {
        **snapshot,
        **{
            name: [one | {"why": WITHHELD} if one["rank"] in ranks and one["why"] else one for one in snapshot[name]]
            for name in ("waits_for", "neighbors")
        },
    }


def why_unready(peer: Mapping[str, Any], within: int = WITHIN) -> str | None:
    """Why a peer takes no part in the federation, of the document or by its snapshot alone; None if it does."""
    if not peer.get("running", True):
        return str(peer["state"])
    return blocked(peer) or unready(peer, within)


def blocked(peer: Mapping[str, Any]) -> str | None:
    """The words for a peer whose event loop is blocked; None for one that runs, or whose process has ended."""
    if not peer.get("running", True) or peer.get("age_seconds", 0.0) <= STALE:
        return None
    return f"its event loop is blocked: its last sign is {peer['age_seconds']:.0f} s old"


def history_line(entry: Mapping[str, Any], *, private: bool) -> dict[str, Any]:
    """A round in a peer's history.

    Args:
        entry: Its line of metrics.jsonl; what is missing or damaged in it is None.
        private: Whether the data are protected, so that figures of them stay in the rank's folder.
    """
    seconds = [number(entry.get(f"{name}_seconds")) for name in ("train", "exchange", "mix")]
    found = {
        "round": entry["round"],
        "round_seconds": None if None in seconds else round(sum(one or 0.0 for one in seconds), 6),
        **{name: number(entry.get(name)) for name in (*FIGURES, "disagreement")},
        **{name: list(wholes(entry.get(name)) or ()) for name in ("heard", "missed")},
    }
    return {name: value for name, value in found.items() if not (private and name in FIGURES)}
