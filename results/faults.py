"""Faults of a simulation and their costs: the entry `faults` of its summary.json, and the sentences on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpeer.results.json_fields import JsonFields, json_field, number, table_or_empty, text, whole

_NAMES = {
    "crash": ("crash", "crashes"), "restart": ("restart", "restarts"), "freeze": ("freeze", "freezes"),
    "slow": ("spell of slowness", "spells of slowness"), "partition": ("rank cut off", "ranks cut off"),
    "leave": ("leave", "leaves"),
}  # fmt: skip
"""The words for one and for several of each kind."""

_MANY = 20


def _wholes(value: Any) -> tuple[int, ...]:
    return tuple(one for one in value if whole(one) is not None) if isinstance(value, list) else ()


def _numbers(value: Any) -> tuple[float, ...]:
    found = [number(one) for one in value] if isinstance(value, list) else []
    return tuple(one for one in found if one is not None)


@dataclass(frozen=True)
class Incident(JsonFields):
    """A fault of one rank. Times are in rounds' time from the start of the run."""

    what: str | None = json_field(text)
    rank: int | None = json_field(whole)
    round: int | None = json_field(whole)
    """In which round the peer was that was furthest."""
    own_round: int | None = json_field(whole)
    """In which round the rank itself was."""
    until_round: int | None = json_field(whole)
    """As `round` when it ended; None if it did not."""
    time: float | None = json_field(number)
    until_time: float | None = json_field(number)


@dataclass(frozen=True)
class FaultCosts(JsonFields):
    """The costs of the faults to one rank."""

    rank: int | None = json_field(whole)
    status: str | None = json_field(text)
    """done; gone, left, former, evicted or failed if the rank was not there at the end; stopped if the run was."""
    first_round: int | None = json_field(whole)
    """The first one that it had to run."""
    joined_at: float | None = json_field(number)
    """When it was let in; 0 for a first member."""
    completed_rounds: int | None = json_field(whole)
    completed_at: tuple[float, ...] = json_field(_numbers)
    """By round from the first one on, when it was complete."""
    sat_out: tuple[int, ...] = json_field(_wholes)
    """Rounds that the others had gone past."""
    rounds_not_run: int | None = json_field(whole)
    bodies_missed: int | None = json_field(whole)
    missed_by_round: Mapping[str, Any] = json_field(table_or_empty)
    """By round, the ranks whose bodies were missing."""


def _incidents(value: Any) -> tuple[Incident, ...]:
    entries = value if isinstance(value, list) else []
    found = (Incident.of(one) for one in entries if isinstance(one, Mapping))
    return tuple(one for one in found if one.rank is not None and one.round is not None)


def _ranks(value: Any) -> tuple[FaultCosts, ...]:
    entries = value if isinstance(value, list) else []
    found = (FaultCosts.of(one) for one in entries if isinstance(one, Mapping))
    return tuple(one for one in found if one.rank is not None)


@dataclass(frozen=True)
class Faults(JsonFields):
    """The whole entry."""

    time: float | None = json_field(number)
    """When the last round of any rank was complete, in rounds' time."""
    happened: tuple[Incident, ...] = json_field(_incidents)
    ranks: tuple[FaultCosts, ...] = json_field(_ranks)


def faults_of(value: Any) -> Faults | None:
    """The entry as it is read; None without one."""
    return Faults.of(value) if isinstance(value, Mapping) else None


def sentences(faults: Faults, rounds: int | None) -> list[str]:
    """The faults and their costs, a line each.

    Args:
        faults: The entry.
        rounds: How many rounds were planned.
    """
    counts = Counter(one.what or "" for one in faults.happened)
    kinds = [f"{count} {_NAMES[what][count > 1]}" for what, count in counts.items() if what in _NAMES]
    away = [
        f"{_named([one.rank for one in faults.ranks if one.status == status and one.rank is not None])} {words}"
        for status, words in _AWAY.items()
        if any(one.status == status for one in faults.ranks)
    ]
    happened = f"faults: {', '.join(kinds) or 'none'}"
    happened += f"; not there at the end: {'; '.join(away)}" if away else "; all ranks were there at the end"
    sat_out = sum(len(one.sat_out) for one in faults.ranks)
    not_run = sum(one.rounds_not_run or 0 for one in faults.ranks)
    missed = sum(one.bodies_missed or 0 for one in faults.ranks)
    took = "" if faults.time is None else f"the run took the time of {faults.time:.1f} rounds"
    took += f" for {rounds}" if took and rounds else ""
    cost = [
        took,
        f"{missed} {_plural('body', 'bodies', missed)} missed in mixes",
        f"{sat_out} {_plural('round', 'rounds', sat_out)} sat out to catch up",
        f"{not_run} {_plural('round', 'rounds', not_run)} not run",
    ]
    return [happened, f"over all ranks: {', '.join(part for part in cost if part)}"]


_AWAY = {
    "gone": "(crashed and never came back)",
    "left": "(left and never came back)",
    "former": "(left by a change of members)",
    "evicted": "(evicted by a change of members)",
    "isolated": "(ended without a quorum)",
    "failed": "(came back and failed: see log.jsonl)",
}


def _plural(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


def _named(ranks: Sequence[int]) -> str:
    listed = ", ".join(map(str, ranks[:_MANY])) + (", ..." if len(ranks) > _MANY else "")
    return f"{_plural('rank', 'ranks', len(ranks))} {listed}"
