"""Rows and columns of peers' snapshots for `status`, `top` and the dashboard, and why a peer takes no part.

`dpeer status`, `dpeer top` and the dashboard show `rows` in `COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dpeer.federation.control_client import Place
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


def rows(places: Sequence[Place]) -> list[dict[str, Any]]:
    """What is known of these peers, as their JSON has it and "name"; then of members that they know of elsewhere.

    Those, on other hosts or in folders that were not named, have name, completed, rounds and state alone.
    """
    found = [one.as_json() | {"name": one.name} for one in places]
    asked = {one["name"] for one in found}
    answers = [one.answer for one in places if one.answer is not None]
    most = max((one["rounds"] for one in answers if one["rounds"] is not None), default=None)
    return found + [
        {
            "name": f"rank-{rank}", "completed": completed, "rounds": most,
            "state": "has not come yet" if completed is None else seen(rank, answers),
        }
        for rank, completed in members(answers).items() if f"rank-{rank}" not in asked
    ]  # fmt: skip


def state(found: Mapping[str, Any]) -> str:
    """What a peer does: "waits 12 s for bodies: rank 2 (in round 6)", or why it does not answer.

    A snapshot of another version of dpeer may have phases that this one does not know.
    """
    if "state" in found:
        return str(found["state"])
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
    if not found.get("phase") or not found["completed"]:
        return NONE
    mixed, missed = ([str(rank) for rank in found[name]] for name in ("mixed", "missed"))
    with_whom = f"with {listed(mixed)}" if mixed else "alone"
    words = f"{with_whom}, without {listed(missed)}" if missed else with_whom
    if found.get("mixed_round") is None or found.get("mixed_round") == found["completed"] - 1:
        return words
    return f"{words}; mixed {_ago(found.get('mixed_seconds'))}, in round {found['mixed_round'] + 1}"


def rounds(found: Mapping[str, Any]) -> str:
    """How many rounds are completed, and of how many: "7/20"."""
    completed, of = found["completed"], found["rounds"]
    if completed is None or found.get("phase") == "starting":
        return NONE
    return f"{completed}" if of is None else f"{completed}/{of}"


def dropped(found: Mapping[str, Any]) -> str:
    """Messages that a peer could not use, by reason: "2 stranger, 1 stale"."""
    return ", ".join(f"{count} {reason}" for reason, count in sorted((found.get("dropped") or {}).items()))


def figure(value: float) -> str:
    """A figure with three digits after the point, or three that count where it is small or large."""
    return f"{value:.3f}" if 0.1 <= abs(value) < 100 or value == 0 else f"{value:.3g}"


def size(count: float) -> str:
    """A number of bytes: "5.0 GB"."""
    return units.size(round(count))


def epsilon(value: float) -> str:
    """A privacy loss with three digits."""
    return f"{value:.3g}"


def _ago(seconds: float | None) -> str:
    return NONE if seconds is None else f"{units.duration(seconds)} ago"


def _known(key: str, words: Callable[[Any], str]) -> Callable[[Mapping[str, Any]], str]:
    """The text of a row's value; a dash where it is not known."""
    return lambda found: NONE if found.get(key) is None else words(found[key])


@dataclass(frozen=True)
class Column:
    """A column of a table of peers.

    Attributes:
        name: Its heading on the dashboard.
        where: Where it is shown: "status", "top" and "page". A table leaves it out where no peer has a value.
        kind: "right" for numbers, "words" for what may be broken into lines.
        text: What a cell has, of a row of `rows`; a dash, or nothing, where it is not known.
        short: Its heading in a terminal, if that is another one.
        goes: When a terminal that is too narrow leaves it out: 1 first; 0 never.
    """

    name: str
    where: str
    kind: Literal["right", "left", "words"]
    text: Callable[[Mapping[str, Any]], str]
    short: str = ""
    goes: int = 0

    @property
    def heading(self) -> str:
        """Its heading in a terminal."""
        return self.short or self.name


COLUMNS = (
    Column("rank", "status top", "right", lambda found: str(found["name"]).removeprefix("rank-")),
    Column("rounds", "status top page", "right", rounds),
    Column("quorum", "status top", "right", _known("quorum", str), goes=8),
    Column("round time", "top page", "right", _known("round_seconds", units.duration), short="round", goes=11),
    Column("time left", "top", "right", _known("left_seconds", units.duration), short="left", goes=9),
    Column("member list", "status top page", "left", member_list, short="list"),
    Column("state", "status top page", "words", state),
    Column("neighbors", "status top page", "words", _known("neighbors", neighbors)),
    Column("last mix", "status top page", "words", mix, goes=7),
    Column("saved", "status top page", "left", _known("checkpoint_seconds", _ago), goes=4),
    Column("sent/s", "top", "right", _known("sent", size), goes=2),
    Column("got/s", "top", "right", _known("received", size), goes=1),
    Column("accuracy", "page", "right", _known("accuracy", figure)),
    Column("epsilon", "top page", "right", _known("epsilon", epsilon), goes=10),
    Column("disagreement", "top page", "right", _known("disagreement", figure), goes=6),
    Column("dropped", "top page", "words", dropped, goes=3),
    Column("disk left", "top page", "right", _known("disk_free", size), short="disk", goes=5),
)  # fmt: skip


def filled_columns(where: str, found: Sequence[Mapping[str, Any]]) -> dict[Column, list[str]]:
    """The columns of a table in which a row has a value, with each row's cell."""
    cells = {one: [one.text(row) or NONE for row in found] for one in COLUMNS if where in one.where.split()}
    return {one: texts for one, texts in cells.items() if {*texts} != {NONE}}


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
