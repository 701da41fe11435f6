"""`dpeer dashboard`: one page for the peers of this host, served until Ctrl-C."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from dpeer.cli.status import DEFAULT, runs_argument
from dpeer.exceptions import ConfigurationError
from dpeer.federation.serve_address import ServeAddress, read_serve
from dpeer.federation.snapshot_words import listed
from dpeer.federation.stop_signals import asked_to_stop
from dpeer.optional_libraries import check_libraries


def _address(context: click.Context, option: click.Parameter, value: str) -> ServeAddress:
    try:
        return read_serve(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from error


@click.command(short_help="Serve one page for the peers of this host.")
@runs_argument
@click.option(
    "--listen", callback=_address, default="0", metavar="[HOST:]PORT", show_default="a free port of loopback",
    help="Where the page is served; at HOST all who reach it can read it.",
)  # fmt: skip
def dashboard(runs: Sequence[Path], listen: ServeAddress) -> int:
    """Serve a page for a browser that shows the peers of run folders while they run; by default those in dpeer-run.

    It has the graph with live links and arrows of who waits for whom, accuracy, disagreement, round times and missed
    bodies by round, and a row for each member. It asks what `dpeer status` asks, and reads the peers' metrics.jsonl.

    \b
    Examples:
      dpeer dashboard
      dpeer dashboard dpeer-run other-run --listen 7790
    """  # noqa: D301 - \b is click's
    check_libraries("dpeer dashboard", "dashboard", starlette="starlette", uvicorn="uvicorn")
    from dpeer.report.dashboard.server import Dashboard
    from dpeer.report.dashboard.view import look_at

    if listen.everywhere:
        raise ConfigurationError(
            f"--listen {listen}: name one address of this host: the page answers browsers that ask for that name alone"
        )
    named = runs or [DEFAULT]
    looks = partial(look_at, named)
    looks()  # a mistake shows now, and not on the page
    with asked_to_stop() as asked, Dashboard(listen, looks, f"dpeer: {listed([*map(str, named)])}") as page:
        click.echo(f"dpeer: the page is at http://{page.address}/; Ctrl-C ends it, not the run")
        if not listen.loopback:
            click.echo("WARNING: the page has no password: all who reach it can read it (docs/security.md)", err=True)
        asked.wait()
    return 0
