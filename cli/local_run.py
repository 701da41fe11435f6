"""Driver of `dpeer cluster` and `dpeer simulate`: runs a federation with a view, and prints how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dpeer.cli.progress import open_view
from dpeer.cli.summary_table import show
from dpeer.cli.terminal import Terminal, ended_at_once
from dpeer.federation import config
from dpeer.federation.run import OpenView, Result, check_converged
from dpeer.federation.settings import Settings
from dpeer.results.files import finite

Run = Callable[..., Result]
"""`dpeer.federation.run.cluster`, or `dpeer.simulation.run.simulate`."""


def local_run(
    run_all: Run, mode: str, *, federation: Path | None, as_json: bool, resume: bool, overwrite: bool, **flags: Any,
) -> int:  # fmt: skip
    """Run a federation, and print how its peers did; returns the exit code.

    Raises:
        Diverged: The run is done, but at its end a loss or parameters are not finite.
    """
    settings = config.load(federation, flags)
    with Terminal() as terminal:
        if elsewhere := [rank for rank, own in settings.rank.items() if own.out is not None]:
            terminal.say(
                f"out in [rank.{elsewhere[0]}] is for dpeer start; here all peers write to {settings.out}/rank-R"
            )
        if file := config.source(federation):
            terminal.say(f"settings from {file}")
        began: dict[str, Any] = {"resume": resume, "overwrite": overwrite}
        return _run(run_all, mode, settings, terminal, as_json=as_json, began=began)


def _run(
    run_all: Run, mode: str, settings: Settings, terminal: Terminal, *, as_json: bool, began: dict[str, Any]
) -> int:
    with ended_at_once():
        view = _opened(terminal, mode, settings)
        result = run_all(settings, **began, open_view=view)
    if result.failure is not None:
        terminal.say(f"dpeer: {result.failure}")
    if not result.summary:
        terminal.say("dpeer: stopped before the first round")
        return 0
    if result.summary["status"] != "done" and result.failure is None:
        again = "--resume goes on" if settings.faults is None else "another --out begins anew"
        terminal.say(f"dpeer: stopped; {again}; files in {settings.out}")
        return 0
    terminal.flush()  # before what goes to stdout
    if as_json:
        click.echo(json.dumps(finite(result.summary), allow_nan=False))
    else:
        show(Console(), result.summary, settings.out)
    if result.exit_code == 0:
        check_converged(result, settings.out)
    return result.exit_code


def _opened(terminal: Terminal, mode: str, settings: Settings) -> OpenView:
    title = f"{mode}: {settings.size} peers, {settings.topology}, {settings.algorithm} on {settings.task}"
    return lambda: open_view(terminal, settings.size, settings.rounds, title)
