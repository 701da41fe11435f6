"""Terminal output of `dpeer compare`: progress lines, chosen hyperparameters and tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

from dpeer.experiments.comparison import Compared
from dpeer.experiments.tables import Table

_SETTING = re.compile(r":(?=[^:]*=)")
"""Where a row's name has a setting; a value may have a colon, too."""


def _spaced(name: str) -> str:
    """A row's name with spaces before its settings, where it may be broken."""
    algorithm, equals, rest = name.partition("=")
    return algorithm.replace(":", " ") + equals + _SETTING.sub(" ", rest)


class ProgressLines:
    """Shows a comparison's progress: a bar on a terminal, else a line for each run.

    Args:
        out: The comparison's folder.
        console: The console that progress is shown on.
    """

    def __init__(self, out: Path, console: Console) -> None:
        self._out, self._console = out, console

    @contextmanager
    def begin(self, what: str, missing: int, total: int) -> Iterator[Callable[[str], None]]:
        """See `dpeer.experiments.comparison.Watcher`."""
        if missing and not self._console.is_terminal:
            click.echo(f"{missing} of {total} {what} to make in {self._out}", err=True)
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("for"), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False),
        )  # fmt: skip
        with Progress(
            *columns, console=self._console, disable=not self._console.is_terminal or not missing
        ) as progress:
            bar = progress.add_task(what, total=missing)
            ended = 0

            def ended_one(name: str) -> None:
                nonlocal ended
                ended += 1
                progress.advance(bar)
                if not self._console.is_terminal:
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
    if found.left_out:
        click.echo(found.left_out)


def show_table(table: Table, console: Console) -> None:
    """Print a table; its numbers are never broken, names of rows only between their settings."""
    shown = RichTable(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
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
