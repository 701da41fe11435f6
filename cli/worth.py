"""`dpeer worth`: the gain of federating over the local-only baseline, for a finished peer or combined over sites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from dpeer.cli.tables import filled, plain_table
from dpeer.cli.terminal import Terminal, ended_at_once, one_line
from dpeer.exceptions import ConfigurationError
from dpeer.federation.control_client import ranks_of
from dpeer.federation.stop_signals import asked_to_stop
from dpeer.results.effect import Effect, closing_lines, headline, interval_text, members_text, verdict_word
from dpeer.results.files import SUMMARY
from dpeer.results.run_folders import read_members, read_object
from dpeer.results.sites import combine, read_site
from dpeer.results.units import decimals

_SHOWN = 20
"""The most ranks without a file that are listed."""


@click.command(short_help="Compare a peer with its local-only baseline, after its run.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR/rank-R | FILE...")
@click.option("--device", metavar="DEVICE", help="Where to train: cpu, cuda or cuda:N.  [default: as in the run]")
@click.option(
    "--give-away", type=click.Path(path_type=Path), metavar="FILE",
    help="Write gain, interval, number of rows and verdict to a small file for others; of no row by itself.",
)  # fmt: skip
@click.option("--combine", "combining", is_flag=True, help="Combine the files that several sites have given away.")
def worth(paths: Sequence[Path], device: str | None, give_away: Path | None, combining: bool) -> None:
    """Compare a peer with its local-only baseline, after its run and without its neighbors.

    The same model is trained from the same first weights on this peer's data, for as many rounds as the run has
    completed. The last lines are those of `dpeer start`, and summary.json gets them, too. With a run's folder in place
    of DIR/rank-R all ranks in it are compared.

    Ctrl-C keeps what is trained; the same command goes on from there. The run's checkpoint, and the data and files that
    it has read, must be where they were, so call it in the same working directory.

    \b
    Examples:
      dpeer worth dpeer-run/rank-0
      dpeer worth dpeer-run/rank-0 --give-away worth-0.json
      dpeer worth --combine worth-0.json worth-1.json worth-2.json
    """  # noqa: D301 - \b is click's
    if combining:
        if device is not None or give_away is not None:
            raise ConfigurationError("--combine reads files and trains nothing: leave out --device and --give-away")
        _combine(paths)
        return
    if len(paths) > 1:
        raise ConfigurationError(
            f"{len(paths)} paths: name one rank's or run's folder, or put --combine before files that sites gave away"
        )
    _compare(paths[0], device, give_away)


def _compare(folder: Path, device: str | None, file: Path | None) -> None:
    """Compare all ranks in a folder and print the gains; write that of one rank to a file for others."""
    with ended_at_once():
        from dpeer.federation.baseline.after_run import (  # torch
            check_may_give_away,
            compare_after_run,
            give_away,
            has_shared_rows,
        )

    folders = ranks_of(folder)
    if file is not None:
        if len(folders) > 1:
            raise ConfigurationError(f"--give-away is for one rank: name one, such as {str(folders[0])!r}")
        check_may_give_away(folders[0], file)
    found: dict[int, Effect] = {}
    with Terminal() as terminal, asked_to_stop() as asked:
        for one in folders:
            start = f"dpeer: {one.name}: " if len(folders) > 1 else "dpeer: "

            def say(line: str, start: str = start) -> None:
                terminal.say(f"{start}{line}")

            compared = compare_after_run(one, asked.is_set, say, device=device)
            if compared is None:
                return
            found[int(read_object(one / SUMMARY)["rank"])] = compared
            terminal.flush()  # before what goes to stdout
            for line in closing_lines(compared):
                click.echo(f"{start}{line}")
    if len(found) > 1:
        members = read_members(folders) or range(read_object(folders[0] / SUMMARY)["size"])
        together = "" if has_shared_rows(folders[0]) else members_text(found, members)
        for line in filter(None, (headline([*found.values()]), together)):
            click.echo(f"dpeer: {line}")
    if file is not None:
        give_away(folders[0], file)
        click.echo(f"dpeer: {file} may be given away: it holds nothing of a single row")


def _combine(paths: Sequence[Path]) -> None:
    """Print a line for each member's site, what they say together, and the ranks without a file."""
    sites, members = combine([read_site(path) for path in paths])
    counted = [one for one in sites if one.rank in members]
    gain = "gain" if counted[0].worth.of_accuracy else "gain of loss"
    rows = [
        (one.rank, one.rounds, one.rows, decimals(one.gain, "+"), interval_text(one.worth), verdict_word(one.worth))
        for one in counted
    ]
    headings = dict.fromkeys(("rank", "rounds", "rows", gain, "95 % interval", "verdict"), "right")
    console = Console(highlight=False, markup=False)
    console.print(filled(plain_table(), headings, rows))
    lines = [
        headline([one.worth for one in counted]),
        members_text({one.rank: one.worth for one in sites}, [one.rank for one in counted]),
    ]
    if missing := [rank for rank in members if rank not in {one.rank for one in counted}]:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        lines.append(f"no file of rank {', '.join(map(str, missing[:_SHOWN]))}{more}")
    if len(versions := {one.version for one in sites}) > 1:
        lines.append(f"the files are of different versions of dpeer: {', '.join(sorted(versions))}")
    for line in filter(None, lines):
        console.print(Text(one_line(line)), soft_wrap=True)
