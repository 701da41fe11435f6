"""`dpeer drain`: running peers finish their round and leave in good order; they stay members."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import click

from dpeer.exceptions import ConfigurationError
from dpeer.federation.control_client import NoAnswer, NotRunning, ask, left, look, ranks_of
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
            click.echo(f"{folder.name}: finishes its round; dpeer status {folder} shows what it waits for")
            leaving.append(folder)
    if not leaving:
        raise reason
    try:
        return max(_wait(leaving))
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


def _wait(leaving: list[Path]) -> list[int]:
    """Print how each of the peers has left, until the last one has; an exit code for each."""
    codes = []
    while leaving:
        for folder in list(leaving):
            with suppress(NoAnswer):
                try:
                    ask(folder, {"ask": "status"})
                except NotRunning:
                    if left(folder):
                        leaving.remove(folder)
                        codes.append(_ended(folder))
        if leaving:
            time.sleep(_EVERY)
    return codes


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
