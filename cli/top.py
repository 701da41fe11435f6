"""`dpeer top`: the peers of a run folder, live."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from dpeer.cli.status import DEFAULT, peers_table, runs_argument
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
    before = look(named), time.monotonic()
    try:
        if once or not console.is_terminal:
            time.sleep(every)
            found = look(named)
            print_table(peers_table("top", found, _rates(found, time.monotonic(), *before), table_width()))
            return 0
        with Live(_view(*before, *before, console.width), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                now = look(named), time.monotonic()
                live.update(_view(*now, *before, console.width), refresh=True)
                before = now
    except KeyboardInterrupt:
        return 0


def _rates(found: Sequence[Place], now: float, earlier: Sequence[Place], then: float) -> list[dict[str, float]]:
    """Bytes a second that each peer has sent and received since the look before."""
    before = {one.folder: one.answer for one in earlier}
    rates: list[dict[str, float]] = []
    for one in found:
        known, was = one.answer, before.get(one.folder)
        rates.append({})
        if known is not None and was is not None and known["pid"] == was["pid"] and now > then:
            for name in ("sent", "received"):
                total, past = (sum(there.get(f"bytes_{name}", 0) for there in at["neighbors"]) for at in (known, was))
                rates[-1][name] = max(0.0, total - past) / (now - then)
    return rates


def _view(found: Sequence[Place], now: float, earlier: Sequence[Place], then: float, width: int) -> Group:
    answers = [one.answer for one in found if one.answer is not None]
    line = f"{in_sum(answers, len(found))}; Ctrl-C ends this view, not the run"
    table = peers_table("top", found, _rates(found, now, earlier, then), width)
    return Group(table, Text(), Text(line, style="dim"))
