"""A run and its peers as their files show them: settings, metrics by round, and values at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dpeer.results.json_fields import whole
from dpeer.results.records import Figure, Line, Metrics
from dpeer.results.summaries import PeerSummary, RunSummary

_PEERS = 10**6
_KEPT: tuple[Figure, ...] = ("accuracy", "test_loss", "training_accuracy")
"""What a summary has of the kept model and, under a name with `_MIXED`, of the one after mixing."""

_MIXED = "_mixed"


@dataclass(frozen=True)
class Peer:
    """The files that one peer left.

    Attributes:
        rank: Its rank.
        metrics: Its metrics.jsonl.
        summary: Its summary.json; None if there is none (yet).
    """

    rank: int
    metrics: Metrics
    summary: PeerSummary | None

    @property
    def entries(self) -> Mapping[int, Line]:
        """The lines of metrics.jsonl by round, in order."""
        return self.metrics.by_round

    def last(self, figure: Figure, *, mixed: bool = False) -> float | None:
        """A figure at the end: of the kept model from the summary, else of the last round that has it.

        Args:
            figure: Which.
            mixed: Whether it is to be that after mixing, also where another model was kept.
        """
        kept: float | None = getattr(self.summary, f"{figure}{_MIXED if mixed and figure in _KEPT else ''}", None)
        found = (_figure(one, figure) for one in reversed(list(self.entries.values())))
        return next((value for value in (kept, *found) if value is not None), None)

    def spent(self) -> Mapping[str, Any] | None:
        """The costs of the peer's releases at the end; None without privacy."""
        left = (self.summary, *reversed(list(self.entries.values())))
        return next((one.privacy for one in left if one is not None and one.privacy is not None), None)

    def sent(self) -> int:
        """The bytes that the peer sent in the whole run."""
        if self.summary is not None and self.summary.bytes_sent is not None:
            return self.summary.bytes_sent
        return sum(line.bytes_sent or 0 for line in self.entries.values())


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        folder: Where it is.
        summary: Its summary.json; None if there is none, or it is an earlier part's.
        settings: What it was run with, as far as it is known.
        peers: The peers that left files, by rank.
        status: done, stopped, failed or unfinished.
        notes: What is wrong with the files, a sentence each.
        distances: Consensus distance by round, where it was recorded.
        source: Which of several folders that were searched it was found in.
    """

    folder: Path
    summary: RunSummary | None
    settings: Mapping[str, Any]
    peers: Mapping[int, Peer]
    status: str
    notes: tuple[str, ...]
    distances: Mapping[int, float]
    source: int = 0

    @cached_property
    def size(self) -> int:
        """The number of peers."""
        least = max(self.peers, default=-1) + 1
        stated = (self.summary.size if self.summary else None) or whole(self.settings.get("size")) or least
        return stated if least <= stated <= _PEERS else least

    @cached_property
    def completed(self) -> int:
        """The number of rounds that every peer with files has completed."""
        return min((max(peer.entries, default=-1) + 1 for peer in self.peers.values()), default=0)

    def finals(self, figure: Figure, *, mixed: bool = False) -> dict[int, float]:
        """A figure at the end of every peer that has one; arguments as of `Peer.last`."""
        by_rank: tuple[float | None, ...] = ()
        if self.summary is not None and figure in _KEPT:
            by_rank = getattr(self.summary, f"{figure}{_MIXED if mixed else ''}", ())
        found = {}
        for rank in range(self.size):
            value = self.peers[rank].last(figure, mixed=mixed) if rank in self.peers else None
            if value is None and rank < len(by_rank):
                value = by_rank[rank]
            if value is not None:
                found[rank] = value
        return found

    def by_round(self, figure: Figure) -> dict[int, list[float]]:
        """A figure of all peers in every round that at least half of them report: fewer say little of the rest.

        Of a run that goes on, only rounds that all have completed count: the quick peers may be the better ones.
        """
        found: dict[int, list[float]] = {}
        for peer in self.peers.values():
            for number, line in peer.entries.items():
                value = _figure(line, figure)
                if value is not None and (self.status != "unfinished" or number < self.completed):
                    found.setdefault(number, []).append(value)
        return {number: found[number] for number in sorted(found) if 2 * len(found[number]) >= len(self.peers)}

    @cached_property
    def bytes_sent(self) -> int:
        """The bytes that all peers sent together."""
        total = self.summary.bytes_sent if self.summary else None
        return sum(peer.sent() for peer in self.peers.values()) if total is None else total

    @cached_property
    def wall_seconds(self) -> float | None:
        """The seconds that the whole run took; those of its slowest peer if that is all that is known."""
        if self.summary is not None and self.summary.wall_seconds is not None:
            return self.summary.wall_seconds
        peers = [peer.summary.wall_seconds for peer in self.peers.values() if peer.summary]
        return max((value for value in peers if value is not None), default=None)

    @cached_property
    def distance(self) -> float | None:
        """Consensus distance at the end."""
        end = self.summary.consensus_distance if self.summary else None
        return next(reversed(list(self.distances.values())), None) if end is None else end


def _figure(left: PeerSummary | Line | None, figure: Figure) -> float | None:
    value: float | None = getattr(left, figure, None)
    return value
