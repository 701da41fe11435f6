"""`dpeer status`: where the peers of a run folder are, whom they wait for, and how their neighbors are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from dpeer.cli.tables import filled, plain_table, print_table
from dpeer.exceptions import ConfigurationError
from dpeer.federation.control_client import Place, look
from dpeer.federation.snapshot_words import WITHIN, Column, filled_columns, rows, unready

DEFAULT = Path("dpeer-run")
"""The folder of a run that names no other."""

_NUMBERS, _BROKEN, _GAP = 8, 12, 1
"""Characters that a column of numbers, and one of words, has at least when widths are planned; those between columns.

Planned widths are larger than most cells, so that a live table keeps its columns from look to look.
"""

runs_argument = click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")


@click.command(short_help="Show where running peers are, and whom they wait for.")
@runs_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an object for each rank's folder.")
@click.option("--check", is_flag=True, help="Say whether each peer takes part, and exit with 1 if one does not.")
@click.option(
    "--within", type=click.IntRange(1), metavar="K", show_default=str(WITHIN),
    help="Rounds within which a peer that takes part has mixed, for --check.",
)  # fmt: skip
def status(runs: Sequence[Path], as_json: bool, check: bool, within: int | None) -> int:
    """Show where the peers of a run folder, or of a rank's, are, whom they wait for and why; by default of dpeer-run.

    A running peer is asked by its control socket; the others are shown as their summary has them. It holds rounds,
    times and liveness, and no result of the training. Column `quorum` has the rounds that a quorum of the members has
    completed: a peer that is ahead of it waits.

    --check is for probes of containers and for scripts: 0 if all peers run, are in their rounds, and have mixed with a
    neighbor within the last K of them.

    \b
    Examples:
      dpeer status dpeer-run
      dpeer status dpeer-run/rank-0 --json
      dpeer status dpeer-run/rank-0 --check --within 5
    """  # noqa: D301 - \b is click's
    if check and as_json:
        raise ConfigurationError("--check and --json: give one of them; the exit code is what --check is for")
    if within is not None and not check:
        raise ConfigurationError(f"--within {within}: it is for --check")
    found = look(runs or [DEFAULT])
    if check:
        return _check(found, within or WITHIN)
    if as_json:
        click.echo(json.dumps([one.as_json() for one in found], indent=1))
    else:
        print_table(peers_table("status", found))
    return 0


def _check(found: Sequence[Place], within: int) -> int:
    """Print whether each peer takes part; returns the exit code."""
    code = 0
    for one in found:
        why = one.state if one.answer is None else unready(one.answer, within)
        click.echo(f"{one.name}: {'takes part' if why is None else f'does not take part: {why}'}")
        code |= why is not None
    return int(code)


def peers_table(
    where: str, found: Sequence[Place], rates: Sequence[Mapping[str, float]] = (), width: int | None = None
) -> Table:
    """The table of these peers, each with its `rates`, and of the members that they know of.

    `width` is the most characters of a line (None: all columns); below is a line with the columns that are left out.
    """
    every = rows(found)
    for row, more in zip(every, rates, strict=False):  # members elsewhere have none
        row.update(more)
    columns = filled_columns(where, every)
    left_out = [] if width is None else _left_out(columns, width)
    shown = {one: cells for one, cells in columns.items() if one not in left_out}
    table = filled(plain_table(gap=_GAP), {one.heading: one.kind for one in shown}, zip(*shown.values(), strict=True))
    if left_out:
        names = ", ".join(one.heading for one in columns if one in left_out)
        table.caption, table.caption_justify = Text(f"left out in {width} columns: {names}", style="dim"), "left"
    return table


def _left_out(columns: Mapping[Column, Sequence[str]], width: int) -> list[Column]:
    """The columns of least worth, for which a line of this width has no room."""

    def planned(one: Column) -> int:
        if one.kind == "words":
            return max(cell_len(one.heading), _BROKEN)
        widest = max(map(cell_len, (one.heading, *columns[one])))
        return widest if one.name == "rank" else max(widest, _NUMBERS)

    found: list[Column] = []
    for column in sorted((one for one in columns if one.goes), key=lambda one: one.goes):
        if sum(planned(one) + 1 + _GAP for one in columns if one not in found) <= width:
            break
        found.append(column)
    return found
