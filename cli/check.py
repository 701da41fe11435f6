"""`dpeer check`: whether a rank can start on this host and reach its neighbors, and what a round will take."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from dpeer.cli.click_from_setting import Time
from dpeer.cli.options import GroupedCommand, GroupedOption, resume_or_start_option, run_options
from dpeer.cli.tables import plain_table, print_table
from dpeer.cli.terminal import one_line
from dpeer.federation.exchange_plans import ExchangePlan, advice
from dpeer.federation.findings import Finding, Findings, Level
from dpeer.federation.forecast import Forecast
from dpeer.federation.run_settings import FaultSettings, LauncherSettings, SimulationSettings
from dpeer.federation.settings import option_names
from dpeer.federation.site_check import Asked, check_site
from dpeer.results.units import duration, read_duration, read_rate, size

_COLORS = {Level.PASS: "green", Level.WARN: "yellow", Level.FAIL: "red"}
_WIDTH = 14
"""Columns of what was looked at."""

_LONGEST_TIMES = 100
"""Columns that exchange plans take where a round lasts for minutes."""


@click.command(cls=GroupedCommand, short_help="Say whether a rank can start on this host, and what a round will take.")
@click.option(
    "--rank", cls=GroupedOption, first=True, required=True, metavar="R",
    help="The rank, or `env`: from Slurm, Open MPI or a pod's name.",
)  # fmt: skip
@click.option(
    "--connect", is_flag=True, cls=GroupedOption, first=True,
    help="Also dial the neighbors and wait for those that dial in. Rate and round trip of the line are measured where "
    "both ends check at the same time. Not beside a running peer.",
)  # fmt: skip
@click.option(
    "--within", default="60s", type=Time(), metavar="TIME", cls=GroupedOption, first=True, show_default=True,
    help="How long --connect waits for neighbors.",
)  # fmt: skip
@click.option(
    "--line", metavar="RATE", cls=GroupedOption, first=True,
    help="Rate of this site's line, such as 20Mbit, in place of what --connect has measured.",
)  # fmt: skip
@click.option(
    "--strict",
    is_flag=True,
    cls=GroupedOption,
    first=True,
    help="Exit with 1 for a WARN, too, and not only for a FAIL.",
)
@click.option("--json", "as_json", is_flag=True, cls=GroupedOption, first=True, help="Print JSON.")
@click.option(
    "--join", "joins", is_flag=True, cls=GroupedOption, group="The run",
    help="The rank enters a running federation, as with dpeer start.",
)  # fmt: skip
@resume_or_start_option
@run_options(*option_names(SimulationSettings, LauncherSettings, FaultSettings))
def check(
    rank: str,
    connect: bool,
    within: str,
    line: str | None,
    strict: bool,
    as_json: bool,
    joins: bool,
    federation: Path | None,
    resume: bool,
    resume_or_start: bool,
    overwrite: bool,
    new_data: bool,
    **flags: Any,
) -> int:
    """Say what would keep a rank from starting on this host, and what its rounds will take.

    It takes all options of `dpeer start`: type `check` in place of `start`. PASS is in order, WARN may be not as it is
    meant, FAIL keeps the peer from starting or taking part. The forecast is timed with the rank's own model and data.
    No body leaves this host, and nothing is written but lines-R.json, what --connect has measured.

    Exit code: 0 without a FAIL, else 1.

    \b
    Examples:
      dpeer check --rank 3
      dpeer check --federation ward-study/dpeer.toml --rank 3 --connect --within 5min
    """  # noqa: D301 - \b is click's
    seconds = read_duration("--within", within)
    line_rate = None if line is None else read_rate("--line", line)
    findings = Findings((lambda finding: None) if as_json else _print)
    asked = Asked(
        federation, flags, rank, joins=joins, resume=resume, resume_or_start=resume_or_start, overwrite=overwrite,
        new_data=new_data, connect=connect, within=seconds, line=line_rate,
    )  # fmt: skip
    forecast = check_site(findings, asked, lambda what: click.echo(f"({what} ...)", err=True))
    bad = findings.worst(Level.FAIL, *([Level.WARN] if strict else []))
    if as_json:
        found = [{"check": one.check, "level": one.level.value, "text": one.text} for one in findings.all]
        lines = {rank: asdict(line) for rank, line in findings.lines.items()}
        plain = None if forecast is None else forecast.as_json()
        content = {"ok": not bad, "findings": found, "lines": lines, "forecast": plain}
        click.echo(json.dumps(content, indent=1, allow_nan=False))
        return int(bad)
    if forecast is not None:
        click.echo("\nWhat will happen:")
        for subject, words in forecast.lines().items():
            click.echo(f"  {subject:{_WIDTH}}{one_line(words)}")
        for note in forecast.notes:
            click.echo(f"  {'note':{_WIDTH}}{one_line(note)}")
        _print_plans(forecast)
    counts = {level: sum(one.level is level for one in findings.all) for level in Level}
    then = (
        "mend what has failed, and check again"
        if counts[Level.FAIL]
        else "it can start, by `dpeer start` with the same options"
    )
    click.echo(f"\n{', '.join(f'{count} {level}' for level, count in counts.items())}: {then}")
    return int(bad)


def _print_plans(forecast: Forecast) -> None:
    """The exchange plans, a row for each codec, and the one to recommend."""
    if forecast.plan is None:
        return
    table = plain_table(gap=2)
    table.add_column("--compress")
    for heading in (
        "a body",
        "bodies\ntake",
        "a round\ntakes",
        "of it\nwaiting",
        "with\n--overlap 1",
        "of it\nwaiting",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    refused: dict[str, list[str]] = {}
    by_codec: dict[str, list[ExchangePlan]] = {}
    for plan in forecast.plans:
        by_codec.setdefault(plan.compress, []).append(plan)
        if plan.refused is not None:
            why = one_line(plan.refused).replace(f"--compress {plan.compress}", "this codec")
            refused.setdefault(why, []).append(plan.flags)
    for codec, both in by_codec.items():
        times = [
            ["refused", ""]
            if plan.refused is not None
            else [duration(plan.round_seconds), duration(plan.waits_seconds)]
            for plan in both
        ]
        table.add_row(codec, size(both[0].payload_bytes), duration(both[0].exchange_seconds), *times[0], *times[1])
    click.echo()
    print_table(table, least=_LONGEST_TIMES)
    for reason, flags in refused.items():
        click.echo(f"Refused: {', '.join(flags)} ({reason})")
    if forecast.recommended is not None:
        words = advice(forecast.plan, forecast.recommended)
        click.echo(f"Recommended: {words}. All peers must have it (docs/running.md, Slow lines).")
    else:
        waits, whole = duration(forecast.plan.waits_seconds), duration(forecast.plan.round_seconds)
        click.echo(f"Recommended: no change; a round waits {waits} of {whole} for the line.")


def _print(finding: Finding) -> None:
    level = click.style(finding.level.value, fg=_COLORS[finding.level])
    click.echo(f"{level}  {finding.check:{_WIDTH}}{one_line(finding.text)}")
