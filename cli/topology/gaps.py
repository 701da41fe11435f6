"""`dpeer topology spectral-gap`: how fast graphs mix, what they survive, and what a round of them costs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console

from dpeer.cli.tables import json_option, plain_table, print_table
from dpeer.cli.topology.options import build_all, graph_options, sizes_option, topologies_option
from dpeer.cli.topology.show import kept_mean
from dpeer.exceptions import ConfigurationError
from dpeer.results.units import duration, read_rate, read_size
from dpeer.results.units import size as as_size
from dpeer.topology import TIME_VARYING, Analysis, analyse
from dpeer.topology.connectivity import LIMIT, survivable_losses

ROUNDS = 20
"""Of a run: the graphs of so many rounds together are searched for survivable losses."""


@dataclass(frozen=True)
class Row:
    """A graph of the table.

    Attributes:
        analysis: Its mixing speed.
        survives: The peers that it may lose; None where that is not computed.
        body_bytes: The bytes of one message; None if they are not given.
        bandwidth: Bits per second that a peer sends, and receives at the same time; None if it is not given.
    """

    analysis: Analysis
    survives: int | None
    body_bytes: int | None
    bandwidth: float | None

    @property
    def bytes(self) -> int | None:
        """The bytes that the busiest peer sends in a round."""
        return None if self.body_bytes is None else self.body_bytes * self.analysis.degree_max

    @property
    def seconds(self) -> float | None:
        """The seconds in which the busiest peer sends them."""
        return None if self.bytes is None or self.bandwidth is None else 8 * self.bytes / self.bandwidth

    def as_dict(self) -> dict[str, Any]:
        """The row under its JSON keys."""
        costs = {"bytes_per_round": self.bytes, "seconds_per_round": self.seconds}
        known = {key: value for key, value in costs.items() if value is not None}
        return self.analysis.as_dict() | {"survives": self.survives} | known


@click.command("spectral-gap", short_help="Compare graphs: how fast they mix, and the cost.")
@topologies_option
@sizes_option
@click.option(
    "--body-bytes", metavar="BYTES", help="Size of one body, such as 45MB or 43MiB: float32 takes 4 bytes a parameter."
)
@click.option("--bandwidth", metavar="RATE", help="What a peer sends, and receives at once: 100Mbit or 12.5MB/s.")
@graph_options
@json_option
def spectral_gap(
    asked: list[str] | None,
    size: list[int] | None,
    body_bytes: str | None,
    bandwidth: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare graphs: how fast they mix, what they survive, and what a round costs.

    \b
    Example:
      dpeer topology spectral-gap --topology ring,grid,exponential,full --size 16 --body-bytes 45MB --bandwidth 100Mbit
    """  # noqa: D301 - \b is click's
    body = None if body_bytes is None else read_size("--body-bytes", body_bytes)
    rate = None if bandwidth is None else read_rate("--bandwidth", bandwidth)
    if rate is not None and body is None:
        raise ConfigurationError("--bandwidth needs the size of a body: give --body-bytes, for example 45MB")
    graphs = build_all(asked, size, options)
    rows = [Row(analyse(graph), survivable_losses(graph, ROUNDS), body, rate) for graph in graphs]
    if as_json:
        every = [row.as_dict() for row in rows]
        click.echo(json.dumps(every[0] if len(every) == 1 else every, allow_nan=False))
    else:
        _print_rows(rows)


def _print_rows(rows: list[Row]) -> None:
    table = plain_table(gap=1)
    table.add_column("topology", no_wrap=True, max_width=24)
    headings = ["peers", "degree", "gap", "rounds\nto half", "may\nlose"]
    headings += ["a round\nsends"] * (rows[0].bytes is not None) + ["a round\ntakes"] * (rows[0].seconds is not None)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    # Gaps are rounded, so that equal ones stay in the order asked for.
    for row in sorted(rows, key=lambda row: (row.analysis.rounds_to_half, -round(row.analysis.spectral_gap, 12))):
        analysis = row.analysis
        fewest, most, rounds = analysis.degree_min, analysis.degree_max, analysis.rounds_to_half
        table.add_row(
            analysis.topology,
            str(analysis.size),
            str(most) if fewest == most else f"{fewest}-{most}",
            f"{analysis.spectral_gap:.4f}" if analysis.spectral_gap >= 0.001 else f"{analysis.spectral_gap:.1e}",
            str(rounds) if rounds < 10**7 else f"{rounds:.1e}",
            "-" if row.survives is None else str(row.survives),
            *([] if row.bytes is None else [as_size(row.bytes)]),
            *([] if row.seconds is None else [duration(row.seconds)]),
        )
    console = Console(highlight=False)
    print_table(table)
    for line in _remarks(rows):
        console.print(line)


def _remarks(rows: list[Row]) -> list[str]:
    lines = [
        "rounds to half: rounds of gossip until half of the worst disagreement is left. may lose: so many peers, any "
        "of them, and the others stay connected; they go on if they are more than half of all (--quorum)."
    ]
    if any(row.survives is None for row in rows):
        lines.append(f"What may be lost is computed up to {LIMIT} peers.")
    by_name = {row.analysis.topology: [one.analysis for one in rows if one.analysis.topology == row.analysis.topology]
               for row in rows}  # fmt: skip
    periods = [f"{name} {_periods(these)}" for name, these in by_name.items() if name.partition(":")[0] in TIME_VARYING]
    if periods:
        lines.append(f"Changing every round; the gap is that of so many rounds together: {'; '.join(periods)}.")
    if (p := rows[0].analysis.stationary) is not None:
        lines.append(f"Weights declared: {kept_mean(p)} The gap is that of D^1/2 W D^-1/2, D = diag(p).")
    losing = [name for name, these in by_name.items() if not these[0].doubly_stochastic and not these[0].stationary]
    if losing:
        lines.append(f"{', '.join(losing)}: rows sum to one, columns do not, so the average is not kept.")
    return lines


def _periods(found: list[Analysis]) -> str:
    if len({a.period for a in found}) == 1:
        return str(found[0].period)
    return ", ".join(f"{a.period} ({a.size} peers)" for a in found)
