"""`dpeer schema check`: the cells and columns of a table that do not fit a schema."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from dpeer.exceptions import ConfigurationError
from dpeer.training.data.duplicate_rows import in_words
from dpeer.training.data.tables.check import Checked, Problem
from dpeer.training.data.tables.check import check as compare
from dpeer.training.data.tables.schema import read_schema
from dpeer.training.data.tables.sheet import read_sheet

FIRST = 10
"""Cells that are shown of each problem, unless all are wanted."""

_LONGEST = 60
"""Of a longer cell only the beginning is shown."""


@click.command(short_help="List what does not fit a schema.")
@click.argument("file", metavar="FILE.csv|.parquet")
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("schema.toml"),
    metavar="FILE",
    show_default=True,
    help="The schema of all sites.",
)
@click.option("--all", "everything", is_flag=True, help=f"Show every cell that does not fit, not the first {FIRST}.")
def check(file: str, schema_file: Path, everything: bool) -> None:
    """List everything in FILE that does not fit the schema, by column and row.

    Rows are numbered as a spreadsheet does: the header is row 1. The exit code is 2 if something does not fit.
    """
    schema = read_schema(schema_file)
    sheet = read_sheet(file)
    found = compare(schema, sheet)
    console = Console(highlight=False, soft_wrap=True)
    for problem in found.problems:
        console.print(_line(problem, None if everything else FIRST), markup=False)
    if found.problems:
        columns = len({problem.column for problem in found.problems})
        cells = sum(len(problem.cells) for problem in found.problems)
        what = f"{cells} cell{'s' if cells != 1 else ''} in " if cells else ""
        verb = "does" if max(columns, cells) == 1 else "do"
        raise ConfigurationError(f"{file}: {what}{columns} column{'s' * (columns > 1)} {verb} not fit {schema_file}")
    for line in _fitting(found, file, schema_file, len(schema.inputs)):
        console.print(line, markup=False)


def _line(problem: Problem, most: int | None) -> str:
    if not problem.cells:
        return f"column {problem.column!r} {problem.what}"
    shown = problem.cells[:most]
    where = ", ".join(f"row {place}: {_shortened(cell)!r}" if cell else f"row {place}" for place, cell in shown)
    rest = len(problem.cells) - len(shown)
    more = f", and {rest} more (--all shows them)" if rest else ""
    count = len(problem.cells)
    return f"column {problem.column!r}, {count} cell{'s' if count != 1 else ''}: {problem.what}: {where}{more}"


def _shortened(cell: str) -> str:
    return cell if len(cell) <= _LONGEST else f"{cell[:_LONGEST]}..."


def _fitting(found: Checked, file: str, schema_file: Path, inputs: int) -> list[str]:
    """The line printed for a table that fits."""
    grouped = "" if found.groups is None else f", {found.groups} groups"
    lines = [f"{file} fits {schema_file}: {found.rows} rows{grouped}, {inputs} columns to learn from"]
    if found.classes:
        lines.append(f"classes: {_counted(found.classes)}")
    if empty := [name for name, count in found.classes.items() if not count]:
        lines.append(f"no row is of class {', '.join(map(repr, empty))}: this site learns of it from the others")
    if found.missing:
        lines.append(f"missing: {_counted(found.missing)}")
    for name, words in found.others.items():
        first = ", ".join(f"{word!r} {count}" for word, count in list(words.items())[:5])
        rest = ", ..." if len(words) > 5 else ""
        lines.append(f"other: {name} {sum(words.values())} ({first}{rest})")
    if found.equal:
        lines.append(f"{in_words(found.equal, found.rows)}: equal ones are all trained on, or all held out")
    if found.unknown:
        lines.append(f"not in the schema, and left out: {', '.join(found.unknown)}")
    return lines


def _counted(counts: object) -> str:
    assert isinstance(counts, dict)
    return ", ".join(f"{name} {count}" for name, count in counts.items())
