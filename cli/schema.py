"""`dpeer schema`: propose a schema from a table, and list a table's cells and columns that do not fit one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
from rich.console import Console

from dpeer.cli.click_from_setting import F
from dpeer.exceptions import ConfigurationError, OutputError, not_written
from dpeer.training.data.holdout import count_equal, digests, in_words
from dpeer.training.data.tables import check as checking
from dpeer.training.data.tables import propose as proposing
from dpeer.training.data.tables.check import Checked
from dpeer.training.data.tables.guess import Guess
from dpeer.training.data.tables.prepare import raw_rows
from dpeer.training.data.tables.propose import Proposed, as_toml, propose
from dpeer.training.data.tables.schema import read_schema
from dpeer.training.data.tables.sheet import Sheet, read_sheet

FIRST = 10
"""Cells that are shown of each problem, unless all are wanted."""

_STRANGERS, _LONGEST = 5, 40
"""Cells with their rows that a question shows, and their letters."""


@click.group()
def schema() -> None:
    """Say what the columns of all sites' tables are, and check a table against it."""


def _written(command: F) -> F:
    """The options of a command that writes a schema."""
    command = click.option("--overwrite", is_flag=True, help="Replace a schema that is there.")(command)
    return click.option(
        "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("schema.toml"), metavar="FILE",
        show_default=True, help="Schema to write.",
    )(command)  # fmt: skip


@schema.command(short_help="Propose a schema from a table.")
@click.argument("file", metavar="FILE.csv|.parquet")
@click.option("--target", metavar="COLUMN", help="The column to predict.  [default: one named so, or the last]")
@click.option("--group", metavar="COLUMN", help="The column that says whose a row is, such as a patient's number.")
@_written
def init(file: str, target: str | None, group: str | None, out: Path, overwrite: bool) -> None:
    """Propose what the columns of FILE are, as a schema.toml to edit and to share.

    One site does this; people of all sites review the file, and then all use the same. It holds no rows, but ranges
    and values that were computed from them.
    """
    _check_free(out, overwrite)
    sheet = read_sheet(file)
    proposed = propose(sheet, target, group)
    _write(proposed, out)
    _print_remarks(proposed, sheet)
    click.echo(f"{out}: proposed from {len(sheet)} rows of {file}. Review it before you share it, then")
    click.echo(f"    dpeer schema check {file} --schema {out}")


def _print_remarks(proposed: Proposed, sheet: Sheet | None = None) -> None:
    """Print what people must decide."""
    rows = {proposed.target.keys["column"]: proposed.target, **proposed.columns}
    remarks: dict[str, list[str]] = {}
    for name, found in rows.items():
        where = "" if sheet is None else _where(found, sheet, name)
        if found.remark:
            remarks.setdefault(f"{found.remark}{where}", []).append(name)
        if sheet is not None and (count := sheet.hidden.get(name)):
            remarks.setdefault(f"invisible signs were taken off {count} cells", []).append(name)
    for remark, names in remarks.items():
        click.echo(f"{', '.join(names)}: {remark}")


def _where(found: Guess, sheet: Sheet, name: str) -> str:
    """The first cells that do not fit, with their rows; they are not written into the schema."""
    strange = {*found.strange}
    cells = [(place, cell) for place, cell in zip(sheet.places, sheet.cells[name], strict=True) if cell in strange]
    if not cells:
        return ""
    shown = ", ".join(f"row {place}: {cell[:_LONGEST]!r}" for place, cell in cells[:_STRANGERS])
    return f" ({shown}{', ...' if len(cells) > _STRANGERS else ''})"


@schema.command(short_help="Make one schema of several sites' proposals.")
@click.argument("files", nargs=-1, required=True, metavar="A.toml B.toml ...")
@_written
def merge(files: tuple[str, ...], out: Path, overwrite: bool) -> None:
    """Make one schema of several: ranges are widened, values and words united, and what differs is asked.

    Where they differ the first file's word stands in the result, with a comment above it.
    """
    if len({*files}) < 2:
        raise ConfigurationError(f"schema merge {' '.join(files)}: expected two files or more")
    _check_free(out, overwrite)
    merged = proposing.merge({file: read_schema(file) for file in files})
    _write(merged, out)
    _print_remarks(merged)
    click.echo(f"{out}: of {', '.join(files)}. Review it before you share it, then check each site's table against it")


def _check_free(out: Path, overwrite: bool) -> None:
    if out.exists() and not overwrite:
        raise OutputError(f"--out {str(out)!r} exists, maybe with edits: give another --out, or --overwrite")


def _write(proposed: Proposed, out: Path) -> None:
    try:
        out.write_text(as_toml(proposed), encoding="utf-8")
    except OSError as error:
        raise not_written(f"--out {str(out)!r}", error) from error


@schema.command(short_help="List what does not fit a schema.")
@click.argument("file", metavar="FILE.csv|.parquet")
@click.option(
    "--schema", "schema_file", type=click.Path(dir_okay=False, path_type=Path), default=Path("schema.toml"),
    metavar="FILE", show_default=True, help="The schema of all sites.",
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help=f"Show every cell that does not fit, not the first {FIRST}.")
def check(file: str, schema_file: Path, everything: bool) -> None:
    """List everything in FILE that does not fit the schema, by column and row.

    Rows are numbered as a spreadsheet does: the header is row 1. The exit code is 2 if something does not fit.
    """
    agreed = read_schema(schema_file)
    found = checking.check(agreed, read_sheet(file))
    console = Console(highlight=False, soft_wrap=True)
    for problem in found.problems:
        console.print(problem.line(None if everything else FIRST, " (--all shows them)"), markup=False)
    if found.problems:
        columns = len({problem.column for problem in found.problems})
        cells = sum(len(problem.cells) for problem in found.problems)
        what = f"{cells} cell{'s' if cells != 1 else ''} in " if cells else ""
        verb = "does" if max(columns, cells) == 1 else "do"
        raise ConfigurationError(f"{file}: {what}{columns} column{'s' * (columns > 1)} {verb} not fit {schema_file}")
    for line in _fitting(found, schema_file):
        console.print(line, markup=False)


def _fitting(found: Checked, schema_file: Path) -> list[str]:
    schema = found.schema
    grouped = "" if schema.group is None else f", {len({*found.sheet.cells[schema.group]})} groups"
    what = f"{len(found)} rows{grouped}, {len(schema.inputs)} columns to learn from"
    lines = [f"{found.sheet.path} fits {schema_file}: {what}"]
    if found.classes:
        lines.append(f"classes: {_counted(found.classes)}")
    if empty := [name for name, count in found.classes.items() if not count]:
        lines.append(f"no row is of class {', '.join(map(repr, empty))}: this site learns of it from the others")
    if found.gaps:
        lines.append(f"missing: {_counted(found.gaps)}")
    lines += found.dressed
    for name, words in found.others.items():
        first = ", ".join(f"{word!r} {count}" for word, count in list(words.items())[:5])
        rest = ", ..." if len(words) > 5 else ""
        lines.append(f"other: {name} {sum(words.values())} ({first}{rest})")
    if equal := count_equal(digests(raw_rows(found))):
        lines.append(f"{in_words(equal, len(found))}: equal ones are all trained on, or all held out")
    if found.unknown:
        lines.append(f"not in the schema, and left out: {', '.join(found.unknown)}")
    return lines


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
