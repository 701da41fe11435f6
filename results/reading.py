"""The folder of one run: its files read, whatever state they are in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpeer.results.runs import Entry, Peer, Run, number, whole
from dpeer.results.status import find_status

_SAID = ("size", "topology", "algorithm", "task", "partition", "rounds", "seed")


def read_run(folder: Path, source: int = 0) -> Run | None:
    """The run in a folder; None if it holds none."""
    summary = read_object(folder / "summary.json")
    if not {"algorithm", "size"} <= summary.keys():
        summary = {}  # another file of this name
    peers = {rank: peer for rank, path in _rank_folders(folder).items() if (peer := _read_peer(path, rank))}
    if not summary and not peers:
        return None
    status, current = find_status(summary, {rank: (peer.entries, peer.summary) for rank, peer in peers.items()})
    first = summary if summary.get("settings") else next((p.summary for p in peers.values() if p.summary), summary)
    settings = first.get("settings")
    known = {key: first[key] for key in _SAID if first.get(key) is not None}
    run = Run(
        folder=folder,
        source=source,
        summary=summary if current else {},
        # The partition in the settings is null where the task chose it; the summary has the one that was used.
        settings={**(settings if isinstance(settings, Mapping) else {}), **known},
        peers=peers,
        status=status,
        notes=(),
        distances=_distances(folder / "disagreement.jsonl"),
    )
    return replace(run, notes=tuple(_notes(run)))


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file; empty if there is none."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _rank_folders(folder: Path) -> dict[int, Path]:
    found = {path.name.removeprefix("rank-"): path for path in folder.glob("rank-*") if path.is_dir()}
    ranks = sorted(
        (int(name), path) for name, path in found.items() if name.isascii() and name.isdigit() and len(name) < 7
    )
    return dict(ranks)


def _read_peer(folder: Path, rank: int) -> Peer | None:
    entries, damaged = _lines(folder / "metrics.jsonl", "round")
    summary = read_object(folder / "summary.json")
    return Peer(rank, entries, summary, damaged) if entries or summary or damaged else None


def _lines(path: Path, key: str) -> tuple[dict[int, Entry], int]:
    """The objects of a file by a whole number in them, and how many lines are none; of two, the later counts."""
    found: dict[int, Entry] = {}
    damaged = 0
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return {}, 0
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        when = whole(entry.get(key)) if isinstance(entry, dict) else None
        if when is not None:
            found[when] = entry
        else:
            damaged += bool(line.strip())
    return dict(sorted(found.items())), damaged


def _distances(path: Path) -> dict[int, float]:
    entries, _ = _lines(path, "round")
    values = {when: number(entry.get("consensus_distance")) for when, entry in entries.items()}
    return {when: value for when, value in values.items() if value is not None}


def _notes(run: Run) -> list[str]:
    notes = []
    rounds = number(run.settings.get("rounds"))
    if run.status != "done":
        of = f" of {rounds:.0f}" if rounds else ""
        notes.append(f"{run.status}: {run.completed}{of} rounds completed by every peer that left files")
    missing = [rank for rank in range(run.size) if rank not in run.peers]
    if missing:
        notes.append(f"{len(missing)} of {run.size} peers left no files here (rank {_some(missing)})")
    damaged = {rank: peer.damaged for rank, peer in run.peers.items() if peer.damaged}
    if damaged:
        count = sum(damaged.values())
        notes.append(f"{count} damaged {'line' if count == 1 else 'lines'} left out (rank {_some(list(damaged))})")
    return notes


def _some(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
