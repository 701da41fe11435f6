"""`dpeer schema init`: a proposed schema of a table."""

from __future__ import annotations

from pathlib import Path

import click
from rich import box
from rich.markup import escape
from rich.table import Table

from dpeer.cli.topology.options import print_table
from dpeer.exceptions import OutputError
from dpeer.training.data.tables.propose import Guess, Proposed, as_toml, propose
from dpeer.training.data.tables.sheet import read_sheet

_SHOWN = 8
"""Words of a column that are shown; the file has all."""


@click.command(short_help="Propose a schema from a table.")
@click.argument("file", metavar="FILE.csv|.parquet")
@click.option("--target", metavar="COLUMN", help="The column to predict.  [default: one named so, or the last]")
@click.option("--group", metavar="COLUMN", help="The column that says whose a row is, such as a patient's number.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("schema.toml"),
    metavar="FILE",
    show_default=True,
    help="Schema to write.",
)
@click.option("--overwrite", is_flag=True, help="Replace a schema that is there.")
def init(file: str, target: str | None, group: str | None, out: Path, overwrite: bool) -> None:
    """Propose what the columns of FILE are, as a schema.toml to edit and to share.

    One site does this; people of all sites review the file, and then all use the same. It holds no rows, but ranges
    and values that were computed from them.
    """
    if out.exists() and not overwrite:
        raise OutputError(f"--out {str(out)!r} exists, maybe with somebody's edits: give another --out, or --overwrite")
    sheet = read_sheet(file)
    proposed = propose(sheet, target, group)
    try:
        out.write_text(as_toml(proposed), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"--out {str(out)!r} cannot be written: {error.strerror}") from error
    _show(proposed)
    click.echo(f"{out}: proposed from {len(sheet)} rows of {file}. Review it before you share it, then")
    click.echo(f"    dpeer schema check {file} --schema {out}")


def _show(proposed: Proposed) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for title in ("column", "kind", "proposed"):
        table.add_column(title, overflow="fold")
    target = proposed.target
    rows = {target.keys["column"]: target, **proposed.columns}
    for name, found in rows.items():
        kind = f"target, {found.keys['kind']}" if found is target else found.keys["kind"]
        table.add_row(escape(name), kind, escape(_short(found)))
    print_table(table)
    click.echo("")
    remarks: dict[str, list[str]] = {}
    for name, found in rows.items():
        if found.remark:
            remarks.setdefault(found.remark, []).append(name)
    for remark, names in remarks.items():
        click.echo(f"{', '.join(names)}: {remark}")


def _short(found: Guess) -> str:
    said = found.keys
    words = said.get("classes") or said.get("values")
    if words:
        return ", ".join(words[:_SHOWN]) + (f", ... ({len(words)})" if len(words) > _SHOWN else "")
    if "range" in said:
        low, high = (f"{end:g}" if isinstance(end, float) else str(end) for end in said["range"])
        formats = said.get("format", [])
        extra = said.get("unit") or " or ".join([formats] if isinstance(formats, str) else formats)
        return f"{low} to {high} {extra}".strip()
    return f"{', '.join(said['yes'])} / {', '.join(said['no'])}" if "yes" in said else ""
