"""Driver of `dpeer cluster` and `dpeer simulate`: runs a federation with a view, then its baseline, and prints both."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dpeer.cli.interrupts import ended_at_once
from dpeer.cli.progress import open_view
from dpeer.cli.summary_table import show
from dpeer.cli.terminal import Terminal
from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation import config
from dpeer.federation.folders import forget_releases
from dpeer.federation.run import OpenView, Result, check_converged
from dpeer.federation.settings import Settings, revalidated
from dpeer.federation.summary import add_comparison
from dpeer.results.files import finite
from dpeer.simulation.run import simulate

Run = Callable[..., Result]
"""`dpeer.federation.run.cluster`, or `dpeer.simulation.run.simulate`."""


def local_run(
    run_all: Run, mode: str, *, federation: Path | None, baseline: str | None, as_json: bool, resume: bool,
    overwrite: bool, **flags: Any,
) -> int:  # fmt: skip
    """Run a federation, then its baseline if one is asked for, and print how they compare; returns the exit code.

    Raises:
        Diverged: The run is done, but at its end a loss or parameters are not finite.
    """
    settings = config.load(federation, flags)
    if baseline is not None:
        with ended_at_once():
            from dpeer.training import find_algorithm

            find_algorithm(baseline)  # a wrong name shows now, not after the run
        if baseline == settings.algorithm:
            raise ConfigurationError(
                f"--baseline {baseline} is what the run itself trains with; name another algorithm"
            )
        # One definition of the local-only baseline. Protected, with a paper's values, or with --alone never, it is a
        # run of its own.
        own_run = settings.privacy != "none" or settings.preset or settings.alone == "never"
        beside = baseline == "local" and not own_run
        if beside or "alone" not in settings.model_fields_set:
            settings = settings.model_copy(update={"alone": "always" if beside else "never"})
        baseline = None if beside else baseline
    with Terminal() as terminal:
        if elsewhere := [rank for rank, own in settings.rank.items() if own.out is not None]:
            terminal.say(
                f"out in [rank.{elsewhere[0]}] is for dpeer start; here all peers write to {settings.out}/rank-R"
            )
        if file := config.source(federation):
            terminal.say(f"settings from {file}")
        began: dict[str, Any] = {"resume": resume, "overwrite": overwrite}
        return _run(run_all, mode, settings, terminal, baseline, as_json=as_json, began=began)


def _run(
    run_all: Run, mode: str, settings: Settings, terminal: Terminal, baseline: str | None, *, as_json: bool,
    began: dict[str, Any],
) -> int:  # fmt: skip
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
    compared = error = None
    summary = result.summary
    if baseline is not None and result.exit_code == 0:
        other = _baseline(settings, baseline)
        try:
            forget_releases(other.out)  # of an earlier baseline, whose peers send nothing
            view = _opened(terminal, "simulate", other)
            found = simulate(other, overwrite=True, open_view=view).summary
            compared = found if found.get("status") == "done" else None  # None if it was stopped, however early
            if compared is not None:
                summary = add_comparison(settings.out, other.out, baseline, summary)
        except DpeerError as failed:
            error = failed  # the run's own results are shown all the same
    terminal.flush()  # before what goes to stdout
    if as_json:
        click.echo(json.dumps(finite(summary | {"baseline": compared}), allow_nan=False))
    else:
        show(Console(), summary, settings.out, compared)
    if error is not None:
        raise error
    if result.exit_code == 0:
        check_converged(result, settings.out)
    return result.exit_code


def _baseline(settings: Settings, algorithm: str) -> Settings:
    """The settings of the run to compare with: `local` is the local-only baseline, as `dpeer start` trains it."""
    if algorithm == "local":
        from dpeer.federation.baseline.training import local_settings  # torch, which a launcher does without

        settings = local_settings(settings)
    out = settings.out / f"baseline-{algorithm}"
    keep = {"keep": "best"} if settings.keep == "blend" else {}  # without a model of its own beside it
    return revalidated(settings, algorithm=algorithm, out=out, alone="never", **keep)


def _opened(terminal: Terminal, mode: str, settings: Settings) -> OpenView:
    title = f"{mode}: {settings.size} peers, {settings.topology}, {settings.algorithm} on {settings.task}"
    return lambda: open_view(terminal, settings.size, settings.rounds, title)
