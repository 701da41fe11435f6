"""`dpeer worth`: whether joining was worth it, told after the run, and of several sites together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from dpeer.cli import combined_table
from dpeer.cli.interrupts import asked_to_stop, ended_at_once
from dpeer.cli.terminal import Terminal
from dpeer.exceptions import ConfigurationError
from dpeer.results.pooled_gain import sentence
from dpeer.results.sites import combine, read_site
from dpeer.results.worth import Worth, ending, headline


@click.command(short_help="Compare a peer with itself alone, after its run.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR/rank-R | FILE...")
@click.option("--device", metavar="DEVICE", help="Where to train: cpu, cuda or cuda:N.  [default: as in the run]")
@click.option(
    "--give-away", type=click.Path(path_type=Path), metavar="FILE",
    help="Write gain, interval, number of rows and verdict to a small file for others; of no row by itself.",
)  # fmt: skip
@click.option("--combine", "combining", is_flag=True, help="Combine the files that several sites have given away.")
def worth(paths: Sequence[Path], device: str | None, give_away: Path | None, combining: bool) -> None:
    """Finish the comparison of a peer with itself alone, after its run and without its neighbors.

    The same model is trained from the same first weights on this peer's data, for as many rounds as the run has
    completed. The last lines are those of `dpeer start`, and summary.json gets them, too. With a run's folder in place
    of DIR/rank-R all ranks in it are compared.

    Ctrl-C keeps what is trained; the same command goes on from there. The data and files that the run has read must
    be where they were, so call it in the same working directory.

    \b
    Examples:
      dpeer worth dpeer-run/rank-0
      dpeer worth dpeer-run/rank-0 --give-away worth-0.json
      dpeer worth --combine worth-0.json worth-1.json worth-2.json
    """  # noqa: D301 - \b is click's
    if combining:
        if device is not None or give_away is not None:
            raise ConfigurationError("--combine reads files and trains nothing: leave out --device and --give-away")
        combined_table.show(combine([read_site(path) for path in paths]))
        return
    if len(paths) > 1:
        raise ConfigurationError(
            f"{len(paths)} paths: name one rank's or run's folder, or put --combine before files that sites gave away"
        )
    _compare(paths[0], device, give_away)


def _compare(folder: Path, device: str | None, file: Path | None) -> None:
    """Compare all ranks in a folder and print what was found; give away what one of them has found."""
    with ended_at_once():
        from dpeer.federation.give_away import check_may_give_away, give_away
        from dpeer.federation.posthoc_baseline import compare_later, has_shared_rows, rank_folders  # torch

    folders = rank_folders(folder)
    if file is not None:
        if len(folders) > 1:
            raise ConfigurationError(f"--give-away is for one rank: name one, such as {str(folders[0])!r}")
        check_may_give_away(folders[0], file)
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
    if file is not None:
        give_away(folders[0], file)
        click.echo(f"dpeer: {file} may be given away: it tells of no row by itself")


def _say(terminal: Terminal, start: str, line: str) -> None:
    terminal.say(f"{start}{line}")
