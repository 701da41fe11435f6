"""`dpeer compare`: algorithms side by side on the same peers, and tables of how they compare."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from dpeer.cli.options import GroupedCommand, GroupedOption, setting_options
from dpeer.cli.tables import plain_table
from dpeer.experiments.launchers import LAUNCHERS, find_launcher
from dpeer.federation.run_settings import (
    AloneSettings,
    LogSettings,
    NetworkSettings,
    ThreadSettings,
)
from dpeer.federation.settings import option_names
from dpeer.topology import split_names

if TYPE_CHECKING:
    from dpeer.experiments.comparison import Compared
    from dpeer.experiments.tables import Table

_NOT_HERE = (LogSettings, AloneSettings, ThreadSettings, NetworkSettings)

_OURS = ("topology", "partition", "algorithm", "seed", "validation", "evaluate_on", "keep", "out")
"""Settings that have an option of their own here, or none."""

_PLAN = (
    "algorithms", "topology", "partition", "seeds", "reference", "grid", "validation",
)  # fmt: skip
"""Options that are keys of an experiment's table [compare]."""

_SETTING = re.compile(r":(?=[^:]*=)")
"""Where a row's name has a setting; a value may have a colon, too."""

_option = partial(click.option, cls=GroupedOption, group="The comparison")


def _list(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    return None if value is None else [part for part in split_names(value) if part]


def _shard(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    number, _, count = value.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise click.BadParameter(f"{value!r}: expected K/N with K from 1 to N, for example 2/8")
    return int(number), int(count)


@click.command(cls=GroupedCommand)
@click.argument("experiment", required=False, type=click.Path(dir_okay=False, path_type=Path))
@_option(
    "--algorithms", callback=_list, metavar="NAME[:KEY=VALUE...],...",
    help="Rows, comma-separated, each with settings of its own if it needs any: local,dfedsmdc:sam=both:rho=0.1.",
)  # fmt: skip
@_option("--topology", callback=_list, metavar="NAME,...", help="Graphs; a table for each.")
@_option("--partition", callback=_list, metavar="SPEC,...", help="Ways to divide the data; a table for each.")
@_option("--seeds", help="Repetitions: FIRST-LAST, or numbers with commas.  [default: 0]")
@_option(
    "--reference", metavar="ROW",
    help="Row that the others are compared with.  [default: the row that trains alone, else the first]",
)  # fmt: skip
@_option(
    "--grid", multiple=True, metavar="KEY[+KEY]=VALUE,...",
    help="Choose these settings for each row on validation data of seed 100, before anything is run; repeatable.",
)  # fmt: skip
@_option(
    "--validation", type=float,
    help="Share of the training samples held out for --grid to choose on; a task of your own brings validation data.  "
    "[default: 0.2]",
)  # fmt: skip
@_option(
    "--jobs", type=click.IntRange(1), metavar="N",
    help="Runs at a time, each on a core of its own.  [default: all cores; ray: all that are missing]",
)  # fmt: skip
@_option(
    "--shard", callback=_shard, metavar="K/N",
    help="Make the K-th of every N runs alone, as in a job array; the same command without it prints the tables.",
)  # fmt: skip
@_option(
    "--launcher", type=click.Choice([*LAUNCHERS]), default="local",
    help="Where runs are made: processes here, or tasks of a Ray cluster.",
)  # fmt: skip
@_option(
    "--out", type=click.Path(path_type=Path), default=Path("dpeer-compare"),
    help="A folder for each run, and the tables.",
)  # fmt: skip
@_option("--json", "as_json", is_flag=True, help="Print the figures as JSON, not as tables.")
@setting_options(*(name for name in option_names(*_NOT_HERE) if name not in _OURS), listed=False)
def compare(
    experiment: Path | None, jobs: int | None, shard: tuple[int, int] | None, launcher: str, out: Path,
    as_json: bool, **given: Any,
) -> int:  # fmt: skip
    """Run algorithms side by side on the same peers, and print how they compare.

    EXPERIMENT is a file of settings with a table [compare] (see examples/papers). Settings are options as those of
    `dpeer simulate`, such as --task and --rounds. Every run is a simulation in a folder of its own: the same command
    again, also after Ctrl-C, runs only what is missing.
    """
    from dpeer.experiments.comparison import Comparison, Unfinished  # torch: not for --help
    from dpeer.experiments.experiment import load

    plan = {name: given.pop(name) for name in _PLAN}
    plan["grid"] = list(plan["grid"]) or None
    found = load(experiment, given, plan)
    opened = find_launcher(launcher, jobs, out)
    try:
        compared = Comparison(found, out, opened, partial(_progress, out, Console(stderr=True)), shard).run()
    except Unfinished as why:
        click.echo(f"dpeer: {why}", err=True)
        return 0
    if as_json:
        click.echo(json.dumps(compared.figures, indent=2))
    else:
        print_compared(compared)
    return 0


def _spaced(name: str) -> str:
    """A row's name with spaces before its settings, where it may be broken."""
    algorithm, equals, rest = name.partition("=")
    return algorithm.replace(":", " ") + equals + _SETTING.sub(" ", rest)


@contextmanager
def _progress(out: Path, console: Console, what: str, missing: int, total: int) -> Iterator[Callable[[str], None]]:
    """Shows a comparison's progress (`Watch`): a bar on a terminal, else a line for each run."""
    if missing and not console.is_terminal:
        click.echo(f"{missing} of {total} {what} to make in {out}", err=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("for"), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=not console.is_terminal or not missing) as progress:
        bar = progress.add_task(what, total=missing)
        ended = 0

        def ended_one(name: str) -> None:
            nonlocal ended
            ended += 1
            progress.advance(bar)
            if not console.is_terminal:
                click.echo(f"{ended}/{missing} {name}", err=True)

        yield ended_one


def print_compared(found: Compared) -> None:
    """Print what was chosen, the tables, and where the files are."""
    console = Console()
    for line in [*found.about, *found.chosen, ""]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    for table in found.tables:
        show_table(table, console)
    tables, peers = found.files
    click.echo(f"tables {tables}; every peer {peers}; a folder for each run")


def show_table(table: Table, console: Console) -> None:
    """Print a table; its numbers are never broken, names of rows only between their settings."""
    shown = plain_table()
    for number, column in enumerate(table.columns):
        if number:
            # As wide as its numbers and words, which then are never broken; only names give way to little room.
            wide = max(7, *(len(row[number]) for row in table.rows), *map(len, column.split()))
            shown.add_column(Text(textwrap.fill(column, wide)), justify="right", no_wrap=True)
        else:
            shown.add_column(Text(column), overflow="fold")
    for name, *row in table.rows:
        shown.add_row(Text(_spaced(name)), *map(Text, row))
    console.print(Text(table.title, "bold"), soft_wrap=True)
    console.print(shown)
    for remark in table.remarks:
        console.print(remark, highlight=False, markup=False, soft_wrap=True)
    console.print()
