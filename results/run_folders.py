"""Run folders in any state: a run and its peers, and their reader, which leaves damaged parts out and counts them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dpeer.exceptions import ConfigurationError
from dpeer.results.files import DISAGREEMENT, MEMBERS, METRICS, SUMMARY, parse
from dpeer.results.json_fields import number, table, whole
from dpeer.results.records import Figure, Metrics, RoundRecord
from dpeer.results.summaries import PeerSummary, RunSummary

_PEERS = 10**6
_KEPT: tuple[Figure, ...] = ("accuracy", "test_loss", "training_accuracy")
"""Figures of a summary: of the kept model and, under a name with `_MIXED`, of the one after mixing."""

_MIXED = "_mixed"


@dataclass(frozen=True)
class PeerFolder:
    """The files that one peer left.

    Attributes:
        summary: Its summary.json; None without one (yet).
    """

    rank: int
    metrics: Metrics
    summary: PeerSummary | None

    @property
    def entries(self) -> Mapping[int, RoundRecord]:
        """The lines of metrics.jsonl by round, in order."""
        return self.metrics.by_round

    def last(self, figure: Figure, *, mixed: bool = False) -> float | None:
        """A figure at the end: of the kept model from the summary, else of the last round that has it.

        With `mixed` it is that after mixing, also where another model was kept.
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
class RunFolder:
    """One run.

    Attributes:
        summary: Its summary.json; None without one, or if it is an earlier part's.
        peers: The peers that left files, by rank.
        status: done, stopped, failed or unfinished.
        distances: Consensus distance by round, where it was recorded.
        listed: The ranks in the last member list; empty for those of the federation file.
        source: The index of the searched folder that it was found in.
    """

    folder: Path
    summary: RunSummary | None
    settings: Mapping[str, Any]
    peers: Mapping[int, PeerFolder]
    status: str
    distances: Mapping[int, float]
    listed: tuple[int, ...] = ()
    source: int = 0

    @cached_property
    def size(self) -> int:
        """The number of peers."""
        least = max(self.peers, default=-1) + 1
        stated = (self.summary.size if self.summary else None) or whole(self.settings.get("size")) or least
        return stated if least <= stated <= _PEERS else least

    @property
    def members(self) -> Sequence[int]:
        """The ranks that are members at the end."""
        return self.listed or range(self.size)

    @cached_property
    def completed(self) -> int:
        """The number of rounds that every peer with files has completed."""
        return min((max(peer.entries, default=-1) + 1 for peer in self.peers.values()), default=0)

    def finals(self, figure: Figure, *, mixed: bool = False) -> dict[int, float]:
        """A figure at the end of every peer that has one; arguments as of `PeerFolder.last`."""
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
            for which, line in peer.entries.items():
                value = _figure(line, figure)
                if value is not None and (self.status != "unfinished" or which < self.completed):
                    found.setdefault(which, []).append(value)
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

    def notes(self) -> list[str]:
        """Damage and missing files, a sentence each."""
        notes, rounds = [], number(self.settings.get("rounds"))
        if self.status != "done":
            of = f" of {rounds:.0f}" if rounds else ""
            notes.append(f"{self.status}: {self.completed}{of} rounds completed by every peer that left files")
        if missing := [rank for rank in range(self.size) if rank not in self.peers]:
            notes.append(f"{len(missing)} of {self.size} peers left no files here (rank {_some(missing)})")
        if damaged := {rank: peer.metrics.damaged for rank, peer in self.peers.items() if peer.metrics.damaged}:
            count = sum(damaged.values())
            notes.append(f"{count} damaged {'line' if count == 1 else 'lines'} left out (rank {_some(list(damaged))})")
        return notes


def _figure(left: PeerSummary | RoundRecord | None, figure: Figure) -> float | None:
    value: float | None = getattr(left, figure, None)
    return value


_OF_SUMMARY = ("size", "topology", "algorithm", "task", "partition", "rounds", "seed")
_DEPTH = 2
"""Folders within folders that are searched for runs."""


def find_runs(folders: Sequence[Path]) -> list[RunFolder]:
    """All runs in the folders, each once, in the order in which the folders are named.

    Raises:
        ConfigurationError: a folder is missing, or holds no run.
    """
    found: dict[Path, RunFolder] = {}
    for source, folder in enumerate(folders):
        if not folder.is_dir():
            raise ConfigurationError(f"{str(folder)!r} is no folder: name the --out of a run, or a folder of such")
        here = list(_search(folder, _DEPTH))
        if not here:
            raise ConfigurationError(
                f"{str(folder)!r} holds no run: expected {folder / 'summary.json'}, or folders that hold one"
            )
        for run in here:
            found.setdefault(run.folder.resolve(), replace(run, source=source))
    return list(found.values())


def _search(folder: Path, depth: int) -> Iterator[RunFolder]:
    run = read_run(folder)
    if run is not None:
        yield run
        return  # all in its folder is its own
    if depth == 0:
        return
    for inner in sorted((path for path in folder.iterdir() if path.is_dir()), key=_natural):
        # The trials that `dpeer compare` tunes with are shown only when they are asked for.
        if not inner.name.startswith((".", "rank-")) and inner.name != "tune":
            yield from _search(inner, depth - 1)


def _natural(path: Path) -> list[str | int]:
    """A sort key by which cell-2 comes before cell-10."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split("([0-9]+)", path.name))]


def read_run(folder: Path) -> RunFolder | None:
    """The run in a folder; None if it holds none."""
    summary = read_run_summary(folder)
    peers = {rank: peer for rank, path in rank_folders(folder).items() if (peer := _read_peer(path, rank))}
    if summary is None and not peers:
        return None
    status, current = _status(summary, peers)
    return RunFolder(
        folder=folder,
        summary=summary if current else None,
        settings=_settings(summary, peers),
        peers=peers,
        status=status,
        distances={known: far for known, far in read_distances(folder / DISAGREEMENT).items() if far is not None},
        listed=read_members(rank_folders(folder).values()),
    )


def read_run_summary(folder: Path) -> RunSummary | None:
    """The summary of all peers of the run in a folder; None without one."""
    content = read_object(folder / SUMMARY)
    # One without these is another program's file of this name.
    return RunSummary.of(content) if {"algorithm", "size"} <= content.keys() else None


def read_peer_summary(folder: Path) -> PeerSummary | None:
    """The summary of the peer whose folder this is; None without one (yet)."""
    content = read_object(folder / SUMMARY)
    return PeerSummary.of(content) if content else None


def read_metrics(folder: Path) -> Metrics:
    """The rounds of the peer whose folder this is. A file that cannot be opened is one damaged line."""
    try:
        content = (folder / METRICS).read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a path with a null byte names no file
        return Metrics()
    except OSError:
        return Metrics(damaged=1)
    objects = [_numbered(line) for line in content.splitlines() if line.strip()]
    lines = tuple(RoundRecord.of(one) for one in objects if one is not None)
    torn = bool(objects) and objects[-1] is None and not content.endswith("\n")
    return Metrics(lines, len(objects) - len(lines), torn)


def read_entries(folder: Path) -> list[dict[str, Any]]:
    """The lines of a peer's metrics.jsonl as they stand in the file, one for each round, in order."""
    return [entry for _, entry in sorted({one["round"]: one for one in _objects(folder / METRICS)}.items())]


def read_distances(path: Path) -> dict[int, float | None]:
    """A run's disagreement.jsonl: how far apart the bodies were, by round; None where that was not finite."""
    return dict(sorted((one["round"], number(one.get("consensus_distance"))) for one in _objects(path)))


def _objects(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that are of some round; none where it cannot be opened."""
    try:
        content = path.read_text(errors="replace")
    except OSError:
        return []
    return [one for line in content.splitlines() if (one := _numbered(line)) is not None]


def _numbered(line: str) -> dict[str, Any] | None:
    """The JSON object in a line if it is of some round."""
    content = parse(line)
    return None if content is None or whole(content.get("round")) is None else content


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object as it stands in a file; empty without one."""
    try:
        return parse(path.read_text()) or {}
    except (OSError, ValueError):
        return {}


def rank_folders(folder: Path) -> dict[int, Path]:
    """The ranks' folders in a run folder, by rank, in order."""
    found = {path: re.fullmatch(r"rank-([0-9]{1,6})", path.name) for path in folder.glob("rank-*") if path.is_dir()}
    return dict(sorted((int(name[1]), path) for path, name in found.items() if name is not None))


def read_members(folders: Iterable[Path]) -> tuple[int, ...]:
    """The ranks in the newest member list that counts in one of these ranks' folders; empty without one."""
    lists = [found for folder in folders if (found := table(read_object(folder / MEMBERS).get("list"))) is not None]
    newest = max(lists, key=lambda one: whole(one.get("version")) or 0, default={})
    return tuple(sorted(int(rank) for rank in table(newest.get("members")) or () if rank.isdecimal()))


def _read_peer(folder: Path, rank: int) -> PeerFolder | None:
    metrics, summary = read_metrics(folder), read_peer_summary(folder)
    return PeerFolder(rank, metrics, summary) if metrics.lines or metrics.damaged or summary else None


def _status(summary: RunSummary | None, peers: Mapping[int, PeerFolder]) -> tuple[str, bool]:
    """How a run ended, and whether its summary.json is of the rounds that the peers' files show.

    A run that is resumed or done again leaves the summary of the earlier one in place until it ends.

    Returns:
        done, stopped, failed or unfinished (running, or killed); and whether the summary counts.
    """
    if summary is not None:
        if any(_went_on(summary, peer) for peer in peers.values()):
            return "unfinished", False
        return summary.status, True
    own = [peer.summary for peer in peers.values()]
    if any(one is None for one in own):
        return "unfinished", False
    # `dpeer start` leaves no summary over all peers: theirs were brought together by hand, maybe not all of them.
    return ("done" if all(one is not None and one.status == "done" for one in own) else "stopped"), False


def _went_on(summary: RunSummary, peer: PeerFolder) -> bool:
    completed = summary.completed_rounds
    counted = completed[peer.rank] if peer.rank < len(completed) else None
    # A peer that was killed has no summary either, and counts as null.
    return peer.summary is None and bool(peer.entries) and counted is not None and max(peer.entries) + 1 != counted


def _settings(summary: RunSummary | None, peers: Mapping[int, PeerFolder]) -> dict[str, Any]:
    """A run's settings, from its summary or the first peer's."""
    own = (peer.summary for peer in peers.values() if peer.summary is not None)
    first = summary if summary is not None and summary.settings else next(own, summary)
    # The partition in the settings is null where the task chose it; the summary has the one that was used.
    known = {key: value for key in _OF_SUMMARY if (value := getattr(first, key, None)) is not None}
    return {**(first.settings if first else {}), **known}


def _some(ranks: list[int]) -> str:
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
