"""`dpeer drain`: running peers finish their round and leave in good order; they stay members."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dpeer.exceptions import ConfigurationError
from dpeer.federation.control_client import NoAnswer, NotRunning, ask, left, look, ranks_of
from dpeer.federation.snapshot_words import state
from dpeer.results.files import SUMMARY
from dpeer.results.json_fields import whole
from dpeer.results.run_folders import read_object

_EVERY = 0.5
"""Seconds between two looks at a peer that leaves."""


@click.command(short_help="Have running peers finish their round and leave.")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--rank", type=int, metavar="R", help="Only this rank of a run folder.")
@click.option(
    "--back-within", type=click.IntRange(0, 600), default=0, metavar="SECONDS", show_default="they go on without it",
    help="Ask its neighbors to wait so long for its return.",
)  # fmt: skip
def drain(run: Path, rank: int | None, back_within: int) -> int:
    """Have the peers of a run folder, or the one of a rank's folder, finish their round and leave.

    A peer completes its round, saves it, stays until its neighbors have its body, and says goodbye; it exits with 0,
    and --resume goes on. Before the first round and in a pause it leaves at once. Ctrl-C ends this command and leaves
    the drain going.

    To upgrade a federation, drain one peer after the other with --back-within and start it again with --resume: no
    round is lost.

    \b
    Examples:
      dpeer drain dpeer-run/rank-0 --back-within 120
      dpeer drain dpeer-run --rank 3
    """  # noqa: D301 - \b is click's
    leaving = []
    for folder in _chosen(run, rank):
        try:
            ask(folder, {"ask": "drain", "back_within": back_within})
        except NotRunning as error:
            reason = error
            click.echo(f"{folder.name}: {'does not run' if left(folder) else 'cannot be asked yet'}")
        else:
            leaving.append(folder)
    if not leaving:
        raise reason
    try:
        return max(_follow(leaving), default=0)
    except KeyboardInterrupt:
        click.echo(f"dpeer: the drain goes on; dpeer status {run} shows it")
        return 130


def _chosen(run: Path, rank: int | None) -> list[Path]:
    found = ranks_of(run)
    if rank is None:
        return found
    chosen = [folder for folder in found if folder.name == f"rank-{rank}"]
    if not chosen:
        raise ConfigurationError(f"--rank {rank}: {str(run)!r} holds {', '.join(one.name for one in found)}")
    return chosen


def _follow(leaving: list[Path]) -> list[int]:
    """Print what the peers wait for until the last one has left; an exit code for each."""
    shown: dict[Path, str] = {}
    codes = []
    while leaving:
        for folder in list(leaving):
            try:
                found = ask(folder, {"ask": "status"})
            except NotRunning:
                if left(folder):
                    leaving.remove(folder)
                    codes.append(_ended(folder))
                continue
            except NoAnswer as error:
                line = str(error)
            else:
                line = f"{_round(found)}{state(found, timed=False)}"
            if shown.get(folder) != line:
                click.echo(f"{folder.name}: {line}")
                shown[folder] = line
        if leaving:
            time.sleep(_EVERY)
    return codes


def _round(found: Mapping[str, Any]) -> str:
    """The round that a peer completes, or has completed before it leaves."""
    completed, rounds = found["completed"], found["rounds"]
    if rounds is None or found["phase"] in ("ended", "meet"):
        return ""
    if found["phase"] == "part":
        return f"after round {completed} of {rounds}: "
    return f"round {min(completed + 1, rounds)} of {rounds}: "


def _ended(folder: Path) -> int:
    """Print how the peer has ended; returns the exit code."""
    summary = read_object(folder / SUMMARY)
    status, completed = summary.get("status"), whole(summary.get("completed_rounds"))
    rounds = whole(summary.get("rounds"))
    after = f"after {completed} rounds" if rounds is None else f"after {completed} of {rounds} rounds"
    if status == "done":
        click.echo(f"{folder.name}: done {after}")
    elif status == "stopped":
        click.echo(f"{folder.name}: left {after}; --resume goes on")
    elif status is None:
        (place,) = look([folder])
        click.echo(f"{folder.name}: {place.state if place.completed else 'left before its first round'}")
        return 1 if place.completed else 0
    else:
        click.echo(f"{folder.name}: ended {status!r} {after}; log.jsonl says why")
        return 1
    return 0
