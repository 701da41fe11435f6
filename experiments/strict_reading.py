"""Strict reading of run folders for a comparison: every file must exist and be complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpeer.exceptions import OutputError
from dpeer.results.reading import read_run
from dpeer.results.records import Line
from dpeer.results.runs import Run
from dpeer.results.summaries import PeerSummary


@dataclass(frozen=True)
class WholeRun:
    """The files of a run that is done.

    Attributes:
        rounds: The number of rounds.
        bytes_sent: The bytes that all peers sent together.
        peers: The summary of each peer, by rank.
        lines: Each peer's rounds in order, by rank; the same rounds for all.
    """

    rounds: int
    bytes_sent: int
    peers: Sequence[PeerSummary]
    lines: Sequence[Sequence[Line]]


def read_whole(folder: Path) -> WholeRun:
    """Read a run that is done.

    Raises:
        OutputError: A file is missing or damaged.
    """
    run = read_run(folder)
    if run is None or run.summary is None or run.summary.rounds is None:
        raise _unusable(folder, "has no summary.json of all peers that says so")
    ranks = range(run.size)
    peers = [summary for rank in ranks if rank in run.peers and (summary := run.peers[rank].summary) is not None]
    lines = [tuple(run.peers[rank].entries.values()) for rank in ranks if rank in run.peers]
    if len(peers) < run.size:
        raise _unusable(folder, f"has summaries of {len(peers)} of its {run.size} peers")
    if damaged := _damaged(run):
        raise _unusable(folder, f"has a metrics.jsonl of rank {damaged[0]} that is empty or damaged")
    if len({tuple(line.round for line in own) for own in lines}) > 1:
        raise _unusable(folder, "has other rounds in metrics.jsonl of one peer than of another")
    return WholeRun(run.summary.rounds, run.bytes_sent, peers, lines)


def _damaged(run: Run) -> list[int]:
    return [rank for rank, peer in run.peers.items() if peer.metrics.damaged or not peer.entries]


def _unusable(folder: Path, why: str) -> OutputError:
    return OutputError(f"{str(folder)!r} holds a run that is done but {why}: remove that folder to have it run again")
