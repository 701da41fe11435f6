"""Peers as the live page shows them, read from a status document that other hosts may have written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dpeer.federation import snapshot_words as words
from dpeer.results.json_fields import JsonFields, flag, json_field, number, table, table_or_empty, whole

Standing = Literal["part", "idle", "away", "ended"]
"""How a peer stands: it takes part in rounds, runs without, does not run or answer, or has ended its rounds."""

LIVENESS = ("alive", "unseen", "suspect", "gone", "dead")
"""Of neighbors, from the best to the worst."""

_MOST = 1000
"""Peers, neighbors and rounds that are read; a document with more is no peer's."""

_LONGEST = 300
"""Characters of one text."""

_FOLDER = re.compile(r"rank-([0-9]{1,9})$")


@dataclass(frozen=True)
class Round(JsonFields):
    """What one round of a peer came to; None for what was not measured, or does not leave the peer."""

    round: int | None = json_field(whole)
    round_seconds: float | None = json_field(number)
    accuracy: float | None = json_field(number)
    test_loss: float | None = json_field(number)
    disagreement: float | None = json_field(number)
    missed: int | None = json_field(lambda value: len(value) if isinstance(value, list) else whole(value))


@dataclass(frozen=True)
class LivePeer:
    """One peer.

    Attributes:
        name: Its folder's, its address, or "rank R".
        rank: Which; None where a place that did not answer does not have it in its name.
        runs: Whether it runs, and has answered.
        standing: How it stands.
        state: What it does, or why it does not answer.
        trouble: Why it takes no part; None if it does, or has ended.
        found: Its snapshot, each value of the right type.
        neighbors: By rank, a neighbor's liveness, and what is to be known beside it.
        waits_for: By rank, why.
        history: Its last rounds, in order.
    """

    name: str
    rank: int | None
    runs: bool
    standing: Standing
    state: str
    trouble: str | None
    found: Mapping[str, Any]
    neighbors: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    waits_for: Mapping[int, str] = field(default_factory=dict)
    history: tuple[Round, ...] = ()

    @property
    def private(self) -> bool:
        """Whether it has a privacy loss: accuracy and losses then stay with it."""
        return self.found["epsilon"] is not None

    def last(self, figure: str) -> float | None:
        """Its newest value of a figure in its history."""
        values = (getattr(one, figure) for one in reversed(self.history))
        return next((float(value) for value in values if value is not None), None)


def read_peers(document: Mapping[str, Any]) -> list[LivePeer]:
    """The peers of a status document, by rank; a value of a wrong type is read as a missing one."""
    found = [_peer(one) for one in _tables(document.get("peers"))]
    return sorted(found, key=lambda one: (one.rank is None, one.rank or 0, one.name))


def _peer(given: Mapping[str, Any]) -> LivePeer:
    found, runs = _snapshot(given), flag(given.get("running")) is True
    folder = (_text(given.get("folder")) or _text(given.get("address")) or "").rstrip("/").rpartition("/")[2]
    rank = whole(given.get("rank"))
    if rank is None and (named := _FOLDER.search(folder)):
        rank = int(named[1])
    state = words.state(found) if runs else _text(given.get("state")) or "does not answer"
    standing, trouble = _standing(given, found, state, runs=runs)
    rounds = (Round.of(one) for one in _tables(given.get("history")))
    return LivePeer(
        name=folder or ("a peer" if rank is None else f"rank {rank}"),
        rank=rank,
        runs=runs,
        standing=standing,
        state=state,
        trouble=trouble,
        found=found,
        neighbors={one["rank"]: (one["liveness"], words.aside(one)) for one in found["neighbors"]},
        waits_for={one["rank"]: one["why"] for one in found["waits_for"]},
        history=tuple(sorted((one for one in rounds if one.round is not None), key=lambda one: one.round or 0)),
    )


def _standing(
    given: Mapping[str, Any], found: Mapping[str, Any], state: str, *, runs: bool
) -> tuple[Standing, str | None]:
    """How a peer stands, and why it takes no part."""
    over = found["rounds"] is not None and found["completed"] >= found["rounds"]
    if not runs:
        return ("ended", None) if over else ("away", state)
    if found["phase"] == "ended":
        return "ended", None
    why = _text(given.get("unready"))
    return ("part", None) if why is None else ("idle", why)


def _snapshot(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a snapshot that the page shows, each of its type (see `dpeer.peer.snapshot.Snapshot`)."""
    found: dict[str, Any] = {
        "phase": _text(given.get("phase")) or "unknown",
        "why": _text(given.get("why")) or "",
        "waiting_seconds": number(given.get("waiting_seconds")) or 0.0,
        "sits_out": flag(given.get("sits_out")) is True,
        "drains": flag(given.get("drains")) is True,
        "completed": whole(given.get("completed")) or 0,
        "rounds": whole(given.get("rounds")),
        "mixed_round": whole(given.get("mixed_round")),
        "disk_free": number(given.get("disk_free")),
        "mixed": _ranks(given.get("mixed")),
        "missed": _ranks(given.get("missed")),
        "epoch": _epoch(given.get("epoch")),
        "next_epoch": _epoch(given.get("next_epoch")),
        "dropped": {_text(name): count for name, count in table_or_empty(given.get("dropped")).items() if whole(count)},
    }
    for name in (
        "mixed_seconds", "checkpoint_seconds", "round_seconds", "left_seconds", "epsilon", "delta", "disagreement",
    ):  # fmt: skip
        found[name] = number(given.get(name))
    found["waits_for"] = [
        {"rank": rank, "why": _text(one.get("why")) or ""}
        for one in _tables(given.get("waits_for"))
        if (rank := whole(one.get("rank"))) is not None
    ]
    found["neighbors"] = [
        {
            "rank": rank, "why": _text(one.get("why")) or "", "unix_socket": flag(one.get("unix_socket")) is True,
            "liveness": word if (word := one.get("liveness")) in LIVENESS else "unseen",
        }
        for one in _tables(given.get("neighbors"))
        if (rank := whole(one.get("rank"))) is not None
    ]  # fmt: skip
    return found


def _epoch(given: Any) -> dict[str, Any] | None:
    if (found := table(given)) is None or whole(found.get("number")) is None:
        return None
    members, begins = _ranks(found.get("members")), whole(found.get("begins")) or 0
    return {"number": found["number"], "members": members, "begins": begins}


def _text(given: Any) -> str | None:
    """The value if it is a text, and as much of it as the page has room for."""
    if not isinstance(given, str):
        return None
    return given if len(given) <= _LONGEST else f"{given[: _LONGEST - 1]}…"


def _tables(given: Any) -> Iterable[Mapping[str, Any]]:
    return [one for one in given[:_MOST] if isinstance(one, Mapping)] if isinstance(given, list | tuple) else []


def _ranks(given: Any) -> list[int]:
    return [one for one in given[:_MOST] if whole(one) is not None] if isinstance(given, list | tuple) else []
