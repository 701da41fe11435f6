"""`dpeer backup`: a copy of a run folder, or of one rank's, in one file; peers go on meanwhile."""

from __future__ import annotations

from pathlib import Path

import click

from dpeer.results.units import size


@click.command(short_help="Copy a run folder into one file, while peers run or not.")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--rank", "ranks", type=click.IntRange(0), multiple=True, metavar="R", help="Only this rank. Repeatable.")
def backup(run: Path, file: Path, ranks: tuple[int, ...]) -> None:
    """Copy a run folder, or a rank's folder, into FILE, with a checksum of each file.

    Peers that run go on meanwhile. FILE holds checkpoints, figures and the privacy ledger, so keep it as safe as the
    data; it is never replaced. Keys and federation file lie elsewhere: copy them, too.

    Only dpeer restore may put a copy of a private peer's folder back: it has the peer count what was released since.

    \b
    Examples:
      dpeer backup dpeer-run /backup/dpeer-$(date +%F).zip
      dpeer backup dpeer-run/rank-3 rank-3.zip
    """  # noqa: D301 - \b is click's
    from dpeer.federation.backup import back_up  # not for --help

    found = back_up(run, file, ranks)
    for one in found.ranks:
        click.echo(f"rank-{one.rank}: {one.completed} completed rounds, {one.files} files, {size(one.bytes)}")
    click.echo(f"dpeer: written to {file} ({size(file.stat().st_size)})")
