"""Tables on stdout, and the option that prints JSON in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def plain_table(*, gap: int = 2, **more: Any) -> Table:
    """A table without columns yet: a rule under its head, and only spaces (`gap` of them) between columns."""
    return Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, show_edge=False, **more)


def filled(table: Table, columns: Mapping[str, str], rows: Iterable[Iterable[object]]) -> Table:
    """The table with these rows, whose cells are no markup.

    Columns are numbers (`right`) or names (`left`), never broken, or `words`, which give way to little room.
    """
    for heading, kind in columns.items():
        side: Literal["left", "right"] = "right" if kind == "right" else "left"
        table.add_column(Text(heading), justify=side, no_wrap=kind != "words", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    return table


def table_width() -> int:
    """Characters in a line of a printed table: those of the terminal, and 80 at least."""
    return max(80, Console().width)


def print_table(table: Table) -> None:
    """Print a table of up to 80 columns: a narrower terminal may break its lines, but must not cut numbers."""
    Console(highlight=False, width=table_width()).print(table)
