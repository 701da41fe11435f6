"""`dpeer top`: the peers of a run folder, live."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from dpeer.cli.interrupts import asked_to_stop
from dpeer.cli.old_dashboard import dashboard_option, open_dashboard
from dpeer.cli.peers_table import Rates, peers_table
from dpeer.cli.runs_argument import DEFAULT, runs_argument
from dpeer.cli.tables import print_table, table_width
from dpeer.exceptions import ConfigurationError
from dpeer.federation.control_client import Place, look_in
from dpeer.federation.repeated_look import RepeatedLook
from dpeer.federation.serve_address import ServeAddress
from dpeer.federation.snapshot_words import in_sum, listed
from dpeer.federation.status_client import looks_at


@click.command(short_help="Show running peers, live.")
@runs_argument
@click.option("--every", type=click.FloatRange(0.2, 3600), default=1.0, metavar="SECONDS", help="Time between looks.")
@click.option("--once", is_flag=True, help="Print one table, with the rates of that time, and end.")
@dashboard_option("--web", "Serve a page of them in place of the table")
def top(runs: Sequence[Path], every: float, once: bool, dashboard: ServeAddress | None) -> int:
    """Show the peers of a run folder until Ctrl-C; by default those in dpeer-run.

    It asks what `dpeer status` asks, and has more columns: how long a round takes and how long is left, bytes a
    second, privacy loss, disagreement, dropped messages, and what the disk has left. A narrow terminal shows fewer
    columns, and names the others. Where stdout is no terminal, it prints one table, as wide as COLUMNS says.

    --web serves a page in place of the table, with the graph and its links, curves by round and each peer's state.

    \b
    Examples:
      dpeer top dpeer-run
      dpeer top dpeer-run/rank-3 --every 5
      dpeer top dpeer-run --web
    """  # noqa: D301 - \b is click's
    named = runs or [DEFAULT]
    if dashboard is not None:
        if once:
            raise ConfigurationError("--web and --once: give one of them")
        return _serve(RepeatedLook(lambda: looks_at(named)), dashboard, listed([*map(str, named)]), every)
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


def _serve(look: Callable[[], list[Place]], address: ServeAddress, named: str, every: float) -> int:
    """Serve the page until the command is asked to stop."""
    look()  # a mistake shows now, and not on the page
    with asked_to_stop() as asked, open_dashboard(address, "--web", look, f"dpeer: {named}", click.echo, every=every):
        click.echo("dpeer: Ctrl-C ends the page, not the run")
        asked.wait()
    return 0


def _look(runs: Sequence[Path], before: Mapping[Path, Rates]) -> tuple[list[Place], dict[Path, Rates]]:
    """The peers, and their bytes a second since the look before."""
    found, now = look_in(runs), time.monotonic()
    rates = {one.folder: Rates(one.answer, now, before.get(one.folder)) for one in found if one.answer is not None}
    return found, rates


def _view(found: Sequence[Place], rates: Mapping[Path, Rates], width: int) -> Group:
    answers = [one.answer for one in found if one.answer is not None]
    line = f"{in_sum(answers, len(found))}; Ctrl-C ends this view, not the run"
    return Group(peers_table(found, rates, width), Text(), Text(line, style="dim"))
