"""`dpeer check`: whether a rank can start on this host and reach its neighbors, and what a round will take."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from dpeer.cli.click_from_setting import Time
from dpeer.cli.options import GroupedCommand, GroupedOption, members_option, resume_or_start_option, run_options
from dpeer.cli.terminal import one_line
from dpeer.federation.findings import Finding, Findings, Level
from dpeer.federation.forecast import in_words
from dpeer.federation.run_settings import FaultSettings
from dpeer.federation.settings import option_names
from dpeer.federation.site_check import check_site
from dpeer.results.units import read_duration, read_rate

_COLORS = {Level.PASS: "green", Level.WARN: "yellow", Level.FAIL: "red"}
_option = partial(click.option, cls=GroupedOption, group="The check")

_WIDTH = 14
"""Columns of what was looked at."""


@click.command(cls=GroupedCommand, short_help="Say whether a rank can start on this host, and what a round will take.")
@click.option(
    "--rank", cls=GroupedOption, group="The run", required=True, metavar="R",
    help="The rank, or `env` (Slurm, MPI, pods).",
)  # fmt: skip
@_option(
    "--connect", is_flag=True,
    help="Also dial the neighbors: where both ends check at once, a message as long as a hello must pass both ways. "
    "Not beside a running peer.",
)  # fmt: skip
@_option(
    "--within", default="60s", type=Time(), metavar="TIME", show_default=True,
    help="How long --connect waits for neighbors.",
)  # fmt: skip
@_option(
    "--bandwidth", metavar="RATE",
    help="Rate of this site's line, such as 20Mbit, for the forecast.",
)  # fmt: skip
@_option(
    "--strict",
    is_flag=True,
    help="Exit with 1 for a WARN, too, and not only for a FAIL.",
)
@_option("--json", "as_json", is_flag=True, help="Print JSON.")
@members_option
@resume_or_start_option
@run_options(*option_names(FaultSettings), listed=False)
def check(
    rank: str,
    connect: bool,
    within: str,
    bandwidth: str | None,
    strict: bool,
    as_json: bool,
    federation: Path | None,
    members: Path | None,
    resume: bool,
    resume_or_start: bool,
    overwrite: bool,
    **flags: Any,
) -> int:
    """Say what would keep a rank from starting on this host, and what its rounds will take.

    It takes all options of `dpeer start`: type `check` in place of `start`. PASS is in order, WARN may be not as it is
    meant, FAIL keeps the peer from starting or taking part. The forecast is timed with the rank's own model and data.
    No body leaves this host, and nothing is written.

    Exit code: 0 without a FAIL, else 1.

    \b
    Examples:
      dpeer check --rank 3
      dpeer check --federation ward-study/dpeer.toml --rank 3 --connect --within 5min
    """  # noqa: D301 - \b is click's
    seconds = read_duration("--within", within)
    findings = Findings((lambda finding: None) if as_json else _print)
    figures = check_site(
        findings, federation, flags, rank, members=members, resume=resume, resume_or_start=resume_or_start,
        overwrite=overwrite, within=seconds if connect else None,
        bandwidth=None if bandwidth is None else read_rate("--bandwidth", bandwidth),
        doing=lambda what: click.echo(f"({what} ...)", err=True),
    )  # fmt: skip
    bad = findings.count(Level.FAIL, *([Level.WARN] if strict else [])) > 0
    if as_json:
        content = {"ok": not bad, "findings": [one._asdict() for one in findings.all], "forecast": figures}
        click.echo(json.dumps(content, indent=1, allow_nan=False))
        return int(bad)
    if figures is not None:
        click.echo("\nWhat will happen:")
        for subject, words in in_words(figures).items():
            click.echo(f"  {subject:{_WIDTH}}{one_line(words)}")
        for note in figures["notes"]:
            click.echo(f"  {'note':{_WIDTH}}{one_line(note)}")
    then = "mend what has failed, and check again"
    if not findings.count(Level.FAIL):
        then = "it can start, by `dpeer start` with the same options"
    click.echo(f"\n{', '.join(f'{findings.count(level)} {level}' for level in Level)}: {then}")
    return int(bad)


def _print(finding: Finding) -> None:
    level = click.style(finding.level.value, fg=_COLORS[finding.level])
    click.echo(f"{level}  {finding.check:{_WIDTH}}{one_line(finding.text)}")
