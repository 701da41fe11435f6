"""Table of the peers of a run folder, for `dpeer status` and `dpeer top`: a row for each rank, from its snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table

from dpeer.cli.tables import plain_table
from dpeer.federation.control_client import Place
from dpeer.federation.epoch_words import in_words
from dpeer.results.units import duration, size

_LISTED = 8

_RIGHT = ("rank", "rounds", "quorum", "round", "left", "sent/s", "got/s", "epsilon", "disk")
"""Columns of numbers."""

_WORDS = ("epoch", "state", "neighbors", "last mix", "dropped")
"""Columns whose words may be broken into lines."""


def peers_table(found: Sequence[Place], earlier: Mapping[str, Rates] | None = None) -> Table:
    """The table of these peers.

    Args:
        found: The peers, by rank.
        earlier: By name of a rank's folder, its bytes a second; None for the short table.
    """
    answers = [one.answer for one in found if one.answer is not None and one.answer["rounds"] is not None]
    names = ["rank", "rounds", "quorum"]
    if any(one.get("epoch") for one in answers):
        names.append("epoch")
    if earlier is not None:
        names += ["round", "left"]
    names += ["state", "neighbors", "last mix", "saved"]
    if earlier is not None:
        names += ["sent/s", "got/s"]
        names += ["epsilon"] if any(one.get("epsilon") is not None for one in answers) else []
        names += ["dropped"] if any(one.get("dropped") for one in answers) else []
        names += ["disk"]
    table = plain_table()
    for name in names:
        table.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=name not in _WORDS)
    for one in found:
        rates = (earlier or {}).get(one.folder.name)
        cells = _cells(one, rates)
        table.add_row(*(cells.get(name, "") for name in names))
    return table


class Rates:
    """Bytes a second that a peer has sent and received since the look before.

    Args:
        answer: Its snapshot.
        time: The clock time of that.
        before: The rates as they were at the look before.
    """

    def __init__(self, answer: Mapping[str, Any], time: float, before: Rates | None = None) -> None:
        self.time, self.pid = time, answer["pid"]
        self.totals = tuple(
            sum(one.get(name, 0) for one in answer["neighbors"]) for name in ("bytes_sent", "bytes_received")
        )
        self.sent: float | None = None
        self.received: float | None = None
        if before is not None and before.pid == self.pid and time > before.time:
            self.sent, self.received = (
                max(0.0, now - then) / (time - before.time)
                for now, then in zip(self.totals, before.totals, strict=True)
            )


def _cells(place: Place, rates: Rates | None) -> dict[str, str]:
    """What a peer's row has, by column."""
    found, rank = place.answer, place.folder.name.removeprefix("rank-")
    if found is None:
        return {
            "rank": rank, "rounds": _rounds(place.completed, place.rounds), "quorum": "-", "epoch": "-",
            "state": place.state, "saved": _ago(place.saved_seconds),
        }  # fmt: skip
    if found["rounds"] is None:
        return {
            "rank": rank, "rounds": "-", "quorum": "-", "epoch": "-", "state": state(found),
            "saved": _ago(place.saved_seconds),
        }  # fmt: skip
    return {
        "rank": rank,
        "rounds": _rounds(found["completed"], found["rounds"]),
        "quorum": "-" if found["quorum"] is None else str(found["quorum"]),
        "epoch": _epoch(found),
        "round": _or_dash(found.get("round_seconds"), duration),
        "left": _or_dash(found.get("left_seconds"), duration),
        "state": state(found),
        "neighbors": _neighbors(found["neighbors"]),
        "last mix": _mix(found),
        "saved": _ago(found["checkpoint_seconds"]),
        "sent/s": _or_dash(None if rates is None else rates.sent, _size),
        "got/s": _or_dash(None if rates is None else rates.received, _size),
        "epsilon": _or_dash(found.get("epsilon"), lambda value: f"{value:.3g}"),
        "dropped": ", ".join(f"{count} {reason}" for reason, count in sorted((found.get("dropped") or {}).items())),
        "disk": _or_dash(found.get("disk_free"), _size),
    }


def _or_dash(value: float | None, words: Callable[[float], str]) -> str:
    return "-" if value is None else words(value)


def _size(count: float) -> str:
    return size(round(count))


def _epoch(found: Mapping[str, Any]) -> str:
    """The present epoch and its members, and the next one: "1: 0..8; 2 from round 12 on: 0, 2..8"."""
    now, following = found.get("epoch"), found.get("next_epoch")
    parts = [f"{now['number']}: {in_words(now['members'])}"] if now else ["-"]
    if following:
        begins = following["begins"] + 1
        parts.append(f"{following['number']} from round {begins} on: {in_words(following['members'])}")
    return "; ".join(parts)


def _rounds(completed: int | None, rounds: int | None) -> str:
    return "-" if completed is None else f"{completed}" if rounds is None else f"{completed}/{rounds}"


_WAITS = {
    "meet": "before the start",
    "pause": "in a pause",
    "collect": "for bodies",
    "settle": "for the end of the round",
    "linger": "after the last round",
    "part": "before it leaves",
}
"""By phase, the place of a wait."""


def state(found: Mapping[str, Any], *, timed: bool = True) -> str:
    """What a running peer does, from its snapshot: "waits 12 s for bodies: rank 2 (in round 6)"; `timed`: for how long.

    A snapshot of another version of dpeer may have phases that this one does not know.
    """
    words = {"starting": "starts: reads its data", "work": "trains", "ended": "has ended its rounds"}
    phase = found["phase"]
    long = f"{duration(found['waiting_seconds'])} " if timed else ""
    parts = [words.get(phase) or f"waits {long}{_WAITS.get(phase, phase)}"]
    if found["why"]:
        parts[0] += f" ({found['why']})"
    if found["waits_for"]:
        by_why: dict[str, list[str]] = {}
        for one in found["waits_for"]:
            by_why.setdefault(one["why"], []).append(f"rank {one['rank']}")
        parts[0] += f": {', '.join(f'{_listed(named)} ({why})' for why, named in by_why.items())}"
    if found["sits_out"]:
        parts.append("sits out what it missed")
    if found["drains"] and phase != "ended":
        parts.append("leaves after this round")
    return "; ".join(parts)


def _neighbors(neighbors: list[Mapping[str, Any]]) -> str:
    alike: dict[tuple[str, str], list[str]] = {}
    for one in neighbors:
        alike.setdefault((one["liveness"], one["why"]), []).append(str(one["rank"]))
    return ", ".join(
        f"{word} {' '.join(ranks[:_LISTED])}{' ...' * (len(ranks) > _LISTED)}{f' ({why})' if why else ''}"
        for (word, why), ranks in alike.items()
    )


def _mix(found: Mapping[str, Any]) -> str:
    if not found["completed"]:
        return "-"
    mixed, missed = ([str(rank) for rank in found[name]] for name in ("mixed", "missed"))
    with_whom = f"with {_listed(mixed)}" if mixed else "alone"
    words = f"{with_whom}, without {_listed(missed)}" if missed else with_whom
    if found.get("mixed_round") is None or found.get("mixed_round") == found["completed"] - 1:
        return words
    return f"{words}; mixed {_ago(found.get('mixed_seconds'))}, in round {found['mixed_round'] + 1}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _ago(seconds: float | None) -> str:
    return "-" if seconds is None else f"{duration(seconds)} ago"
