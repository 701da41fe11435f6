"""`dpeer restore`: put the folders of ranks back from a backup, after a disk was lost."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click


@click.command(short_help="Put a run folder back from a backup.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--rank", "ranks", type=click.IntRange(0), multiple=True, metavar="R", help="Only this rank. Repeatable.")
@click.option(
    "--rounds", type=click.IntRange(0), metavar="N", show_default="the others know",
    help="The most rounds that a rank can have completed when its folder was lost, where no peer knows any more.",
)  # fmt: skip
@click.option(
    "--restarts",
    type=click.IntRange(0, 10_000),
    metavar="N",
    help="With --privacy sample: how often the peer's process can have begun again between backup and loss.",
)
def restore(file: Path, run: Path, ranks: tuple[int, ...], rounds: int | None, restarts: int | None) -> None:
    """Put the ranks' folders of a backup back into RUN; what is there already is never replaced.

    Every file is compared with its checksum first. The peer goes on with --resume: as one that was away it takes its
    neighbors' bodies and enters the present round.

    A private peer cannot know what it released after the backup. So it charges every round up to its entry, and never
    releases one of those again. Say here what no other peer can know: --rounds where most peers are put back, and
    --restarts where records are protected.

    \b
    Examples:
      dpeer restore /backup/dpeer-2026-11-26.zip dpeer-run
      dpeer restore rank-3.zip dpeer-run --restarts 2
    """  # noqa: D301 - \b is click's
    from dpeer.federation.backup import restore as put_back  # not for --help

    found = put_back(file, run, ranks, rounds=rounds, restarts=restarts)
    made = datetime.fromtimestamp(found.written, UTC).strftime("%Y-%m-%d %H:%M UTC")
    for one in found.ranks:
        private = "" if one.level is None else "; rounds since are charged, and released in none"
        click.echo(f"rank-{one.rank}: {one.completed} completed rounds, backup of {made}{private}")
    click.echo(
        f"dpeer: put back into {run}: start its peer with --resume. The folder that was lost must never be started, "
        "should its disk turn up again"
    )
