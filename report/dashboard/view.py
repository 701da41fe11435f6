"""What the dashboard shows at one moment, as JSON values: tiles, links, waits, and a row and rounds of each peer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, Literal

from dpeer.federation import snapshot_words as words
from dpeer.federation.control_client import Place, look
from dpeer.federation.snapshot_words import unready
from dpeer.results.files import METRICS, parse
from dpeer.results.records import RoundRecord
from dpeer.results.units import duration

Standing = Literal["part", "idle", "away", "ended", "unasked"]
"""A peer takes part in rounds, runs without, does not run or answer, or has ended; or is a member without a folder."""

WITHHELD = "see the peer's log"
"""What stands in place of a reason that may name an address or a setting: other hosts may read the page."""

KEPT = 200
"""Rounds of a peer that are shown."""

_TAIL = 2**20
"""Bytes at the end of a long metrics.jsonl in which these rounds are looked for."""

_PATIENCE = 1.0
"""Seconds that a look waits for a peer's answer."""

_OF_DATA = ("accuracy", "test_loss")
"""Figures that stay in the rank's folder where privacy is on."""


@dataclass(frozen=True)
class History:
    """The last rounds of a peer.

    Attributes:
        columns: By figure, a value for each round, and "round", counted from 1; under privacy no figure of the data.
        private: Whether the data are protected: lines have the privacy loss.
    """

    columns: Mapping[str, Sequence[float | None]]
    private: bool = False

    def last(self, figure: str) -> float | None:
        """The newest value of a figure; None where it is not measured, or stays in the folder."""
        return next((value for value in reversed(self.columns.get(figure, ())) if value is not None), None)


def history(folder: Path) -> History:
    """The last rounds in a rank's folder, read again when its metrics.jsonl has changed."""
    path = folder / METRICS
    try:
        found = path.stat()
        return _history(path, found.st_size, found.st_ino, found.st_mtime_ns)
    except OSError:
        return History({})


@lru_cache(1000)
def _history(path: Path, size: int, *state: int) -> History:
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL))
        content = file.read().rpartition(b"\n")[0]  # half a line is none yet
    read = (RoundRecord.of(parse(line) or {}) for line in content.decode(errors="replace").splitlines()[-KEPT:])
    lines = sorted({line.round: line for line in read if line.round >= 0}.items())
    columns: dict[str, list[float | None]] = {
        "accuracy": [line.accuracy for _, line in lines],
        "test_loss": [line.test_loss for _, line in lines],
        "disagreement": [line.disagreement for _, line in lines],
        "round_seconds": [None if line.seconds is None else sum(line.seconds) for _, line in lines],
        "missed": [len(line.missed) for _, line in lines],
    }
    private = any(line.privacy is not None for _, line in lines)
    shown = {name: values for name, values in columns.items() if not (private and name in _OF_DATA)}
    return History({"round": [at + 1 for at, _ in lines], **shown}, private)


@dataclass(frozen=True)
class _Peer:
    """A row of `snapshot_words.rows`: a peer of this host, or a member that its peers know of."""

    standing: Standing
    trouble: str | None
    row: Mapping[str, Any]
    history: History

    @property
    def rank(self) -> int | None:
        """The rank in its name."""
        number = self.row["name"].removeprefix("rank-")
        return int(number) if number.isdecimal() else None


def look_at(runs: Iterable[Path]) -> dict[str, Any]:
    """What the page shows now of the peers in run folders, or in ranks' folders.

    Raises:
        ConfigurationError: A folder holds no run.
    """
    return view(look(list(runs), _PATIENCE))


def view(places: Sequence[Place]) -> dict[str, Any]:
    """The view of peers that were looked at, and of the members that they know of."""
    peers = sorted(map(_peer, words.rows(places)), key=lambda one: (one.rank is None, one.rank or 0, one.row["name"]))
    standings: Counter[str] = Counter(one.standing for one in peers)
    return {
        "news": _news(standings),
        "tiles": _tiles(peers, standings),
        "trouble": _trouble(peers),
        "private": sum(one.history.private for one in peers),
        "columns": [
            {"name": one.name, "number": one.kind == "right", "cells": cells}
            for one, cells in words.filled_columns("page", [peer.row for peer in peers]).items()
        ],
        "peers": [
            {
                "rank": one.rank,
                "name": one.row["name"],
                "standing": one.standing,
                "words": one.trouble or words.state(one.row),
                "links": {str(other["rank"]): [other["liveness"], other["why"]] for other in one.row["neighbors"]},
                "waits": {str(other["rank"]): other["why"] for other in one.row["waits_for"]},
                "history": one.history.columns,
            }
            for one in peers
        ],
    }  # fmt: skip


def _peer(row: Mapping[str, Any]) -> _Peer:
    past, hidden = history(Path(row["folder"])) if "folder" in row else History({}), row.get("withheld", ())
    shown = {
        name: [one | {"why": WITHHELD} if one["rank"] in hidden and one["why"] else one for one in row.get(name, ())]
        for name in ("waits_for", "neighbors")
    }
    row = {**row, **shown, **{figure: past.last(figure) for figure in ("accuracy", "disagreement")}}
    standing: Standing
    if "folder" not in row:
        standing, trouble = "unasked", None
    elif row["running"]:
        trouble = None if row["phase"] == "ended" else unready(row)
        standing = "ended" if row["phase"] == "ended" else "part" if trouble is None else "idle"
    else:
        over = row["rounds"] is not None and (row["completed"] or 0) >= row["rounds"]
        standing, trouble = ("ended", None) if over else ("away", row["state"])
    return _Peer(standing, trouble, row, past)


def _news(standings: Mapping[str, int]) -> str:
    """What a screen reader and the page's tab say; it changes only when a peer's standing does."""
    here = sum(standings.values()) - standings.get("unasked", 0)
    if standings.get("ended") == here:
        return "the run has ended" if here > 1 else "the peer has ended"
    return f"{standings.get('part', 0)} of {here} take part"


def _tiles(peers: Sequence[_Peer], standings: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Name, value and a remark of each fact over all peers."""
    here = [one for one in peers if one.standing != "unasked"]
    rest = {"idle": "idle", "away": "away", "ended": "ended", "unasked": "on other hosts"}
    aside = [f"{standings[name]} {word}" for name, word in rest.items() if standings.get(name)]
    of_this_host = " of this host" if standings.get("unasked") else ""
    tiles = [(f"peers{of_this_host} that take part", f"{standings.get('part', 0)} of {len(here)}", ", ".join(aside))]
    running = [one for one in peers if one.standing in ("part", "idle", "unasked") and one.row["completed"] is not None]
    limit = max((one.row["rounds"] for one in peers if one.row["rounds"] is not None), default=None)
    of = "" if limit is None else f"of {limit}"
    now = sorted({min((one.row["completed"] or 0) + 1, limit or 10**9) for one in running})
    done = max((one.row["completed"] or 0 for one in peers), default=0)
    spread = f"{done} done" if not now else str(now[0]) if len(now) == 1 else f"{now[0]} to {now[-1]}"
    tiles.append(("round", spread, of))
    if times := _known(peers, "round_seconds"):
        slowest = f"slowest peer {duration(max(times))}" if len(times) > 1 else ""
        tiles.append(("a round takes", duration(median(times)), slowest))
    if left := _known(peers, "left_seconds"):
        tiles.append(("time left", duration(max(left)), "at this pace"))
    for figure in ("accuracy", "disagreement"):
        if values := [value for one in peers if (value := one.row[figure]) is not None]:
            several = len(values) > 1
            remark = f"{words.figure(min(values))} to {words.figure(max(values))}" if several else ""
            tiles.append((f"{figure}, median" if several else figure, words.figure(median(values)), remark))
    if losses := [(one.row["epsilon"], one.row["delta"]) for one in peers if one.row.get("epsilon") is not None]:
        epsilon, delta = max(losses)
        tiles.append(("epsilon, largest" if len(losses) > 1 else "epsilon", words.epsilon(epsilon),
                      "" if delta is None else f"at delta {delta:.1g}"))  # fmt: skip
    if disks := _known(peers, "disk_free"):
        tiles.append(("least disk left", words.size(min(disks)), ""))
    return tiles


def _known(peers: Sequence[_Peer], name: str) -> list[float]:
    return [value for one in peers if (value := one.row.get(name)) is not None]


def _trouble(peers: Sequence[_Peer]) -> list[tuple[str, list[str]]]:
    """Each reason why peers take no part, and their names."""
    found: dict[str, list[str]] = {}
    for one in peers:
        if one.trouble is not None:
            found.setdefault(one.trouble, []).append(one.row["name"])
    return list(found.items())
