"""`dpeer status`: where the peers of a run folder are, whom they wait for, and how their neighbors are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dpeer.cli.tables import plain_table, print_table
from dpeer.federation.control_client import Place, look
from dpeer.federation.epoch_words import in_words
from dpeer.results.units import duration

_LISTED = 8


@click.command(short_help="Show where running peers are, and whom they wait for.")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for each rank's folder.")
def status(run: Path, as_json: bool) -> None:
    """Show where the peers of a run folder are, or the one of a rank's folder.

    A running peer is asked on this host, by its control socket; the others are shown as their summary has them. It
    holds rounds, times and liveness, and no result of the training.

    \b
    Examples:
      dpeer status dpeer-run
      dpeer status dpeer-run/rank-0 --json
    """  # noqa: D301 - \b is click's
    found = look(run)
    if as_json:
        click.echo(json.dumps([one.as_json() for one in found], indent=1))
        return
    table = plain_table()
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    table.add_column("quorum", justify="right", no_wrap=True)
    changes = any(one.answer is not None and one.answer.get("epoch") for one in found)
    if changes:
        table.add_column("epoch")
    for name in ("state", "neighbors", "last mix"):
        table.add_column(name)
    table.add_column("saved", no_wrap=True)
    for one in found:
        rank, (rounds, quorum, *rest) = one.folder.name.removeprefix("rank-"), _cells(one)
        table.add_row(rank, rounds, quorum, *([_epoch(one.answer or {})] if changes else []), *rest)
    print_table(table)


def _cells(place: Place) -> tuple[str, ...]:
    found = place.answer
    if found is None:
        return _rounds(place.completed, place.rounds), "-", place.state, "", "", _ago(place.saved_seconds)
    if found["rounds"] is None:
        return "-", "-", state(found), "", "", _ago(place.saved_seconds)
    quorum = "-" if found["quorum"] is None else str(found["quorum"])
    return (
        _rounds(found["completed"], found["rounds"]), quorum, state(found), _neighbors(found["neighbors"]),
        _mix(found), _ago(found["checkpoint_seconds"]),
    )  # fmt: skip


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
    return f"{with_whom}, without {_listed(missed)}" if missed else with_whom


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _ago(seconds: float | None) -> str:
    return "-" if seconds is None else f"{duration(seconds)} ago"
