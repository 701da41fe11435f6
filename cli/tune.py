"""`dpeer tune`: learning rates and SAM radius for one peer, chosen on its own validation data."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from dpeer.cli.options import GroupedCommand, GroupedOption, setting_options
from dpeer.cli.tables import plain_table
from dpeer.exceptions import ConfigurationError, DpeerError
from dpeer.federation import config
from dpeer.federation.run_settings import (
    AloneSettings,
    FaultSettings,
    LauncherSettings,
    LogSettings,
    MeasureSettings,
    NetworkSettings,
    SimulationSettings,
)
from dpeer.federation.settings import Settings, option_names
from dpeer.federation.stop_signals import stop_signals
from dpeer.privacy.settings import PrivacySettings
from dpeer.topology.settings import GraphSettings

if TYPE_CHECKING:
    from dpeer.experiments.coordinate_search import Found, Rates, Tried

_ELSEWHERE = (
    MeasureSettings, AloneSettings, LogSettings, NetworkSettings, LauncherSettings, SimulationSettings, FaultSettings,
    PrivacySettings, GraphSettings,
)  # fmt: skip
_SETTINGS = ("size", *(name for name in option_names(*_ELSEWHERE) if name != "rounds"))

_HUGE = 1e4
"""Losses from here on are shown with an exponent."""

_option = partial(click.option, cls=GroupedOption, first=True)


@click.command(cls=GroupedCommand)
@_option(
    "--federation", type=click.Path(dir_okay=False, path_type=Path),
    help="Federation file (TOML); ./dpeer.toml is used when it exists.",
)  # fmt: skip
@_option("--rank", type=click.IntRange(0), metavar="R", help="This peer's rank.  [default: 0]")
@_option(
    "--rounds", type=click.IntRange(1), default=5, show_default=False, metavar="N",
    help="The run's first rounds that are tried with all values.  [default: 5]",
)  # fmt: skip
@_option(
    "--grid", multiple=True, metavar="KEY[+KEY]=VALUE,...",
    help="What to try, one --grid after the other, each at the best of those before.  [default: body-lr+head-lr, then "
    "head-lr, then rho, as far as the algorithm has them]",
)  # fmt: skip
@_option("--json", "as_json", is_flag=True, help="Print JSON.")
@setting_options(*_SETTINGS)
def tune(
    federation: Path | None, rank: int | None, rounds: int, grid: Sequence[str], as_json: bool, **flags: Any
) -> int:
    """Choose learning rates and SAM's radius on this peer's own data, before it joins.

    The peer trains a few rounds by itself with each value: nothing is sent, nothing is written. A fifth of its training
    samples is held out to choose by; its test data are not touched. What is given as a flag stays as it is. At the end
    stand the lines for the federation file, which must be equal on all peers. Ctrl-C ends with what was tried.
    """
    settings = config.load(federation, flags)
    if rank is None and settings.rank:
        raise ConfigurationError("--rank is missing: the federation file has tables [rank.N]; say whose data these are")
    number = rank or 0
    given = {name: value for name, value in flags.items() if value is not None and value != {}}

    from dpeer.experiments.coordinate_search import Rates  # torch is imported only now: mistakes above show at once
    from dpeer.experiments.grid_search import parse_axis

    if settings.threads is not None:
        import torch

        torch.set_num_threads(settings.threads)
    own = settings.of_rank(number)
    rates = Rates(own, number, rounds, [parse_axis(text) for text in grid] or None, given)
    if not rates.most > 1:
        raise ConfigurationError(f"nothing is left to choose for {own.algorithm}: every rate is given")
    if own.privacy != "none":
        click.echo(
            f"WARNING: --privacy {own.privacy} does not cover what is chosen here: it is read off this peer's data "
            "without noise, and neighbors get to know the rates; choose them on public data instead",
            err=True,
        )
    with _stopped_by_signals(rates):
        found = rates.run(_Lines(rates.most))
    if as_json:
        about = {"rank": number, "algorithm": own.algorithm, "task": own.task, "rounds": min(rounds, own.rounds)}
        click.echo(json.dumps({**about, **found.described()}, allow_nan=False))
    elif found.tried:
        _print(own, number, min(rounds, own.rounds), found)
    if not found.complete:
        click.echo("dpeer: stopped; what was tried is no choice yet", err=True)
    elif found.best is None:
        raise DpeerError("training diverged with every value: try smaller ones with --grid, or scale the inputs")
    return 0


class _Lines:
    """Prints after each training its number and its loss."""

    def __init__(self, most: int) -> None:
        self._most, self._ended = most, 0

    def __call__(self, tried: Tried) -> None:
        self._ended += 1
        came = "diverged" if tried.diverged else f"validation loss {_loss(tried)}"
        click.echo(f"{self._ended} of at most {self._most}: {_listed(tried.values)}: {came}", err=True)


@contextmanager
def _stopped_by_signals(rates: Rates) -> Iterator[None]:
    """Within it Ctrl-C ends after the current minibatch, and a second one at once."""
    asked = False

    def handle(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        rates.stop()

    before = {number: signal.signal(number, handle) for number in stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(settings: Settings, rank: int, rounds: int, found: Found) -> None:
    console = Console(highlight=False)
    console.print(
        f"rank {rank}, {settings.algorithm} on {settings.task}: {rounds} round{'s' * (rounds > 1)} alone on "
        f"{found.training_samples} samples, measured on {found.validation_samples} that were held out",
        soft_wrap=True,
    )
    console.print(_table(found))
    best = found.best
    if best is None or not found.complete:
        return
    for line in _remarks(found):
        console.print(line, soft_wrap=True)
    console.print("\nFor the federation file:\n")
    for name, value in best.values.items():
        console.print(f"{name} = {json.dumps(value)}" if value is not None else f"# no {name}", markup=False)
    console.print(
        "\nThese must be equal on all peers. If other sites find other values, agree on the smallest of each: a rate "
        "that is too small costs rounds, one that is too large costs the model.",
        soft_wrap=True,
    )


def _table(found: Found) -> Table:
    table = plain_table()
    with_accuracy = any(one.accuracy is not None for one in found.tried)
    for name in (*found.tried[0].values, "validation loss", *(["accuracy"] if with_accuracy else [])):
        table.add_column(name.replace("_", "-"), justify="right", no_wrap=True)
    table.add_column("")
    for number, one in enumerate(found.tried):
        accuracy = ["-" if one.accuracy is None else f"{one.accuracy:.4f}"] if with_accuracy else []
        notes = ["as it is"] * (number == 0) + ["best"] * (found.complete and one is found.best)
        table.add_row(*map(_short, one.values.values()), _loss(one), *accuracy, ", ".join(notes))
    return table


def _remarks(found: Found) -> list[str]:
    lines = []
    if found.at_edge:
        edge = ", ".join(name.replace("_", "-") for name in found.at_edge)
        lines.append(f"The best {edge} is the smallest or largest that was tried: look further with --grid.")
    if found.resolution is not None and found.resolution > 0:
        lines.append(
            f"{found.validation_samples} validation samples: accuracies that are less than {found.resolution:.2f} "
            "apart may differ by chance."
        )
    return lines


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', '-')} {_short(value)}" for name, value in values.items())


def _loss(tried: Tried) -> str:
    return "diverged" if tried.diverged else f"{tried.loss:.4f}" if tried.loss < _HUGE else f"{tried.loss:.1e}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
