"""The table of what joining was worth to several sites, and what follows from it."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpeer.cli.terminal import one_line
from dpeer.results.sites import Combined
from dpeer.results.worth import gain_text, headline, interval_text, verdict_text, verdict_word

_SHOWN = 20
"""The line of ranks without a file."""


def show(found: Combined, console: Console | None = None) -> None:
    """Print a line for each site, the means over sites and over rows, and of whom there is no file."""
    console = console or Console(highlight=False, markup=False)
    of_accuracy = found.sites[0].worth.of_accuracy
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("rank", justify="right", no_wrap=True)
    for heading in ("rounds", "rows", "gain" if of_accuracy else "gain of loss", "95 % interval", "joining"):
        table.add_column(heading, justify="right", no_wrap=True)
    for site in found.sites:
        table.add_row(
            str(site.rank), str(site.rounds), str(site.worth.rows), f"{site.worth.gain:+.4f}",
            interval_text(site.worth), verdict_word(site.worth),
        )  # fmt: skip
    console.print(table)
    for line in _lines(found):
        console.print(Text(one_line(line)), soft_wrap=True)


def _lines(found: Combined) -> list[str]:
    """What is told under the table."""
    sites, unit = found.sites, "" if found.sites[0].worth.of_accuracy else " of loss"
    lines = [
        headline([site.worth for site in sites]),
        f"{found.improved} of {len(sites)} sites improved, {found.worse} got worse (sign test of sites: p = "
        f"{found.p_value:.2g})",
    ]
    if found.low is None or found.high is None:
        lines.append("the mean over sites has an interval from two files on")
    else:
        lines.append(
            f"mean gain over sites: {found.gain:+.4f}{unit} (95 % interval {found.low:+.4f} to {found.high:+.4f}, "
            "Student's t)"
        )
    if found.by_rows is not None:
        lines.append(f"mean gain over rows: {gain_text(found.by_rows)}: {verdict_text(found.by_rows)}")
    elif len(sites) > 1:
        lines.append("no mean over rows: with --test-split shared sites have measured on the same rows")
    if found.missing:
        more = f" and {len(found.missing) - _SHOWN} more" if len(found.missing) > _SHOWN else ""
        lines.append(f"no file of rank {', '.join(map(str, found.missing[:_SHOWN]))}{more}")
    if len(versions := {site.version for site in sites}) > 1:
        lines.append(f"the files are of different versions of dpeer: {', '.join(sorted(versions))}")
    return lines
