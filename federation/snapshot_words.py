"""Words for a peer's snapshot: state, neighbors, last mix and rounds, and why a peer takes no part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpeer.results import units

NONE = "-"

_LISTED = 8

_WAITS = {
    "meet": "before the start",
    "pause": "in a pause",
    "collect": "for bodies",
    "adopt": "for bodies to adopt",
    "settle": "for the end of the round",
    "linger": "after the last round",
    "part": "before it leaves",
}
"""By phase, the place of a wait."""


def state(found: Mapping[str, Any]) -> str:
    """What a running peer does, from its snapshot: "waits 12 s for bodies: rank 2 (in round 6)".

    A snapshot of another version of dpeer may have phases that this one does not know.
    """
    words = {"starting": "starts: reads its data", "work": "trains", "ended": "has ended its rounds"}
    phase = found["phase"]
    parts = [words.get(phase) or f"waits {units.duration(found['waiting_seconds'])} {_WAITS.get(phase, phase)}"]
    if found["why"]:
        parts[0] += f" ({found['why']})"
    if found["waits_for"]:
        by_why: dict[str, list[str]] = {}
        for one in found["waits_for"]:
            by_why.setdefault(one["why"], []).append(f"rank {one['rank']}")
        parts[0] += f": {listed([f'{listed(named)} ({why})' for why, named in by_why.items()])}"
    if found["sits_out"]:
        parts.append("sits out what it missed")
    if found["drains"] and phase != "ended":
        parts.append("leaves after this round")
    return "; ".join(parts)


def neighbors(found: Sequence[Mapping[str, Any]]) -> str:
    """A peer's neighbors, those that are alike together: "alive 0 1, dead 2 (silent for 15 s)"."""
    alike: dict[tuple[str, str], list[str]] = {}
    for one in found:
        alike.setdefault((one["liveness"], one["why"]), []).append(str(one["rank"]))
    return listed([
        f"{word} {' '.join(ranks[:_LISTED])}{' ...' * (len(ranks) > _LISTED)}{f' ({why})' if why else ''}"
        for (word, why), ranks in alike.items()
    ])  # fmt: skip


def members(answers: Sequence[Mapping[str, Any]]) -> dict[int, int | None]:
    """By rank, the rounds that each member has completed, at least, as any of these peers knows; None: never there."""
    found: dict[int, int | None] = {}
    for one in answers:
        for rank, completed in (one.get("members") or {}).items():  # of JSON: names of ranks
            known = found.get(int(rank))
            found[int(rank)] = completed if known is None else max(known, completed or 0)
    return dict(sorted(found.items()))


def member_list(found: Mapping[str, Any]) -> str:
    """The member list in use, and one that waits for votes: "2, 3 waits"; a dash for the federation file alone."""
    used, waits = found.get("member_list") or 0, found.get("next_list")
    if waits is not None:
        return f"{used}, {waits} waits"
    return str(used) if used else NONE


def seen(rank: int, answers: Sequence[Mapping[str, Any]]) -> str:
    """How these peers see a member that is not asked itself: "not asked; alive to rank 0, 2"."""
    by_word: dict[str, list[str]] = {}
    for one in answers:
        for neighbor in one["neighbors"]:
            if neighbor["rank"] == rank:
                by_word.setdefault(neighbor["liveness"], []).append(str(one["rank"]))
    views = [f"{word} to {'rank' if len(ranks) == 1 else 'ranks'} {listed(ranks)}" for word, ranks in by_word.items()]
    return "; ".join(["not asked", *views])


def mix(found: Mapping[str, Any]) -> str:
    """With whom and without whom a peer mixed in its last completed round, and when it last mixed at all."""
    if not found["completed"]:
        return NONE
    mixed, missed = ([str(rank) for rank in found[name]] for name in ("mixed", "missed"))
    with_whom = f"with {listed(mixed)}" if mixed else "alone"
    words = f"{with_whom}, without {listed(missed)}" if missed else with_whom
    if found.get("mixed_round") is None or found.get("mixed_round") == found["completed"] - 1:
        return words
    return f"{words}; mixed {ago(found.get('mixed_seconds'))}, in round {found['mixed_round'] + 1}"


def rounds(completed: int | None, of: int | None) -> str:
    """How many rounds are completed, and of how many: "7/20"."""
    return NONE if completed is None else f"{completed}" if of is None else f"{completed}/{of}"


def dropped(found: Mapping[str, Any]) -> str:
    """Messages that a peer could not use, by reason: "2 stranger, 1 stale"."""
    return ", ".join(f"{count} {reason}" for reason, count in sorted((found.get("dropped") or {}).items()))


def ago(seconds: float | None) -> str:
    """An age: "3.0 s ago"."""
    return or_dash(seconds, lambda value: f"{units.duration(value)} ago")


def size(count: float | None) -> str:
    """A number of bytes: "5.0 GB"."""
    return or_dash(count, lambda value: units.size(round(value)))


def duration(seconds: float | None) -> str:
    """A time: "6 min 30 s"."""
    return or_dash(seconds, units.duration)


def epsilon(value: float | None) -> str:
    """A privacy loss with three digits."""
    return or_dash(value, lambda known: f"{known:.3g}")


def or_dash(value: float | None, words: Callable[[float], str]) -> str:
    """A number in words; a dash for None."""
    return NONE if value is None else words(value)


def listed(names: Sequence[str]) -> str:
    """Names in a row, eight at most, and how many more."""
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def in_sum(answers: Sequence[Mapping[str, Any]], places: int) -> str:
    """All peers in a line: "8 of 8 peers run, in rounds 12 to 13 of 20".

    Args:
        answers: The snapshots of those that run.
        places: How many peers were looked for.
    """
    words = f"{len(answers)} of {places} peers run"
    now = [one["completed"] + 1 for one in answers if one["rounds"] is not None and one["phase"] != "ended"]
    if now:
        most = max(one["rounds"] for one in answers if one["rounds"] is not None)
        low, high = min(now), max(now)
        words += f", in round {low} of {most}" if low == high else f", in rounds {low} to {high} of {most}"
    return words


WITHIN = 3
"""Rounds within which a ready peer has mixed, by default."""

STALE = 10.0
"""Seconds after which an event loop that has given no sign is taken for blocked."""

_NOT_IN_ROUNDS: Mapping[str, str] = {
    "starting": "it starts",
    "meet": "it waits for its neighbors, before the start",
    "ended": "its rounds are over",
}
"""By phase, why a peer is in no round."""


def unready(snapshot: Mapping[str, Any], within: int = WITHIN) -> str | None:
    """Why a running peer takes no part in the federation; None if it does.

    A peer that is alive and has not mixed for weeks looks healthy to a probe that asks whether its process answers.

    Args:
        snapshot: A `dpeer.peer.snapshot.Snapshot` as plain values.
        within: The number of its last completed rounds in one of which it has mixed a neighbor's body.
    """
    if (why := _NOT_IN_ROUNDS.get(snapshot["phase"])) is not None:
        return why
    if snapshot["phase"] == "pause":
        return f"it pauses: {snapshot['why']}" if snapshot["why"] else "it pauses"
    if snapshot["sits_out"]:
        return "it sits out rounds that the others ran without it"
    if not snapshot.get("mixes", True):
        return None
    mixed, completed = snapshot.get("mixed_round"), snapshot["completed"]
    if mixed is None:
        return f"it has mixed in none of {completed} rounds" if completed else "it has completed no round yet"
    if completed - mixed > within:
        return f"it has mixed in none of the last {completed - mixed - 1} rounds (since round {mixed + 1})"
    return None
