"""`dpeer worth`: whether joining was worth it, told after the run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from dpeer.cli.interrupts import asked_to_stop, ended_at_once
from dpeer.cli.terminal import Terminal
from dpeer.results.together import sentence
from dpeer.results.worth import Worth, ending, headline


@click.command(short_help="Compare a peer with itself alone, after its run.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR/rank-R")
@click.option("--device", metavar="DEVICE", help="Where to train: cpu, cuda or cuda:N.  [default: as in the run]")
def worth(folder: Path, device: str | None) -> None:
    """Finish the comparison of a peer with itself alone, after its run and without its neighbors.

    The same model is trained from the same first weights on this peer's data, for as many rounds as the run has
    completed. The last lines are those of `dpeer start`, and summary.json gets them, too. With a run's folder in place
    of DIR/rank-R all ranks in it are compared.

    Ctrl-C keeps what is trained; the same command goes on from there. The data and files that the run has read must
    be where they were, so call it in the same working directory.

    \b
    Example:
      dpeer worth dpeer-run/rank-0
    """  # noqa: D301 - \b is click's
    with ended_at_once():
        from dpeer.federation.later import compare_later, has_shared_rows, rank_folders  # torch

    folders = rank_folders(folder)
    found: list[Worth] = []
    with Terminal() as terminal, asked_to_stop() as asked:
        for one in folders:
            start = f"dpeer: {one.name}: " if len(folders) > 1 else "dpeer: "
            compared = compare_later(one, asked.is_set, partial(_say, terminal, start), device=device)
            if compared is None:
                return
            found.append(compared)
            terminal.flush()  # before what goes to stdout
            for line in ending(compared):
                click.echo(f"{start}{line}")
    if len(found) > 1:
        together = "" if has_shared_rows(folders[0]) else sentence(found)
        for line in filter(None, (headline(found), together)):
            click.echo(f"dpeer: {line}")


def _say(terminal: Terminal, start: str, line: str) -> None:
    terminal.say(f"{start}{line}")
