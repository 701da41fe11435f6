"""What is known of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Entry = Mapping[str, Any]

COUNTED = 10**9
"""More of anything are damage in a file."""

_PEERS = 10**6
_HUGE = 1e100


def number(value: Any) -> float | None:
    """The value if it is a number that something can have been measured as."""
    if isinstance(value, int | float) and not isinstance(value, bool) and -_HUGE < value < _HUGE:
        return float(value)
    return None


def whole(value: Any) -> int | None:
    """The value if it is a whole number from 0 on that rounds, ranks or samples can be counted up to."""
    return value if type(value) is int and 0 <= value < COUNTED else None


@dataclass(frozen=True)
class Peer:
    """What one peer left.

    Attributes:
        rank: Its rank.
        entries: The lines of metrics.jsonl by round, in order.
        summary: Its summary.json; empty if there is none (yet).
        damaged: The number of lines that could not be read.
    """

    rank: int
    entries: Mapping[int, Entry]
    summary: Entry
    damaged: int = 0

    def last(self, key: str) -> float | None:
        """A value at the end: of the kept model from the summary, else of the last round that has it."""
        said = number(self.summary.get(key))
        if said is not None:
            return said
        return next((value for entry in reversed(list(self.entries.values())) if (value := number(entry.get(key)))
                     is not None), None)  # fmt: skip

    def spent(self) -> Entry | None:
        """What its releases have cost at the end; None without privacy."""
        said = (entry.get("privacy") for entry in (self.summary, *reversed(list(self.entries.values()))))
        return next((spent for spent in said if isinstance(spent, Mapping)), None)

    def sent(self) -> float:
        """Bytes sent in all."""
        said = number(self.summary.get("bytes_sent"))
        return sum(number(entry.get("bytes_sent")) or 0.0 for entry in self.entries.values()) if said is None else said


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        folder: Where it is.
        source: Which of the folders that were asked for it was found in.
        summary: Its summary.json; empty if there is none, or it is an earlier part's.
        settings: What it was run with, as far as it is known.
        peers: Those that left something, by rank.
        status: done, stopped, failed or unfinished.
        notes: What is wrong with the files, a sentence each.
        distances: Consensus distance by round, where it was recorded.
    """

    folder: Path
    source: int
    summary: Entry
    settings: Entry
    peers: Mapping[int, Peer]
    status: str
    notes: tuple[str, ...]
    distances: Mapping[int, float]

    @cached_property
    def size(self) -> int:
        """The number of peers."""
        least = max(self.peers, default=-1) + 1
        said = whole(self.summary.get("size")) or whole(self.settings.get("size")) or least
        return said if least <= said <= _PEERS else least

    @cached_property
    def completed(self) -> int:
        """Rounds that every peer that left something has completed."""
        return min((max(peer.entries, default=-1) + 1 for peer in self.peers.values()), default=0)

    def finals(self, key: str) -> dict[int, float]:
        """A value at the end of every peer that has one."""
        listed = self.summary.get(key)
        by_rank = listed if isinstance(listed, list) else []
        found = {}
        for rank in range(self.size):
            value = self.peers[rank].last(key) if rank in self.peers else None
            if value is None and rank < len(by_rank):
                value = number(by_rank[rank])
            if value is not None:
                found[rank] = value
        return found

    def by_round(self, key: str) -> dict[int, list[float]]:
        """A value of all peers in every round that at least half of them report: fewer say little of the rest.

        Of a run that goes on, only rounds that all have completed: the quick ones may be the better ones.
        """
        found: dict[int, list[float]] = {}
        for peer in self.peers.values():
            for when, entry in peer.entries.items():
                value = number(entry.get(key))
                if value is not None and (self.status != "unfinished" or when < self.completed):
                    found.setdefault(when, []).append(value)
        return {when: found[when] for when in sorted(found) if 2 * len(found[when]) >= len(self.peers)}

    @cached_property
    def bytes_sent(self) -> float:
        """By all peers together."""
        said = number(self.summary.get("bytes_sent"))
        return sum(peer.sent() for peer in self.peers.values()) if said is None else said

    @cached_property
    def wall_seconds(self) -> float | None:
        """Of the whole run; of its slowest peer if that is all that is known."""
        said = number(self.summary.get("wall_seconds"))
        peers = [number(peer.summary.get("wall_seconds")) for peer in self.peers.values()]
        return max((value for value in peers if value is not None), default=None) if said is None else said

    @cached_property
    def distance(self) -> float | None:
        """Consensus distance at the end."""
        said = number(self.summary.get("consensus_distance"))
        return next(reversed(list(self.distances.values())), None) if said is None else said
