"""`dpeer top`: the peers of a run folder, live."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from dpeer.cli.peers_table import Rates, peers_table
from dpeer.cli.status import DEFAULT, runs_argument
from dpeer.cli.tables import print_table, table_width
from dpeer.federation.control_client import Place, look
from dpeer.federation.snapshot_words import in_sum


@click.command(short_help="Show running peers, live.")
@runs_argument
@click.option("--every", type=click.FloatRange(0.2, 3600), default=1.0, metavar="SECONDS", help="Time between looks.")
@click.option("--once", is_flag=True, help="Print one table, with the rates of that time, and end.")
def top(runs: Sequence[Path], every: float, once: bool) -> int:
    """Show the peers of a run folder until Ctrl-C; by default those in dpeer-run.

    It asks what `dpeer status` asks, and has more columns: how long a round takes and how long is left, bytes a
    second, privacy loss, disagreement, dropped messages, and what the disk has left. A narrow terminal shows fewer
    columns, and names the others. Where stdout is no terminal, it prints one table, as wide as COLUMNS says.

    \b
    Examples:
      dpeer top dpeer-run
      dpeer top dpeer-run/rank-3 --every 5
    """  # noqa: D301 - \b is click's
    named = runs or [DEFAULT]
    console = Console(highlight=False)
    found, rates = _look(named, {})
    try:
        if once or not console.is_terminal:
            time.sleep(every)
            found, rates = _look(named, rates)
            print_table(peers_table(found, rates, table_width()))
            return 0
        with Live(_view(found, rates, console.width), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                found, rates = _look(named, rates)
                live.update(_view(found, rates, console.width), refresh=True)
    except KeyboardInterrupt:
        return 0


def _look(runs: Sequence[Path], before: Mapping[Path, Rates]) -> tuple[list[Place], dict[Path, Rates]]:
    """The peers, and their bytes a second since the look before."""
    found, now = look(runs), time.monotonic()
    rates = {one.folder: Rates(one.answer, now, before.get(one.folder)) for one in found if one.answer is not None}
    return found, rates


def _view(found: Sequence[Place], rates: Mapping[Path, Rates], width: int) -> Group:
    answers = [one.answer for one in found if one.answer is not None]
    line = f"{in_sum(answers, len(found))}; Ctrl-C ends this view, not the run"
    return Group(peers_table(found, rates, width), Text(), Text(line, style="dim"))
