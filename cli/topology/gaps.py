"""`dpeer topology spectral-gap`: spectral gap and messages per round of graphs."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console

from dpeer.cli.tables import json_option, plain_table, print_table
from dpeer.cli.topology.options import build_all, graph_options, sizes_option, topologies_option
from dpeer.topology import TIME_VARYING, Analysis, analyse
from dpeer.topology.connectivity import survivable_losses

ROUNDS = 20
"""Of a run: the graphs of so many rounds together are searched for survivable losses."""

NOTES = {
    "ring": "ring: the papers' formula is 4 times (4/3) sin^2(pi/m), the gap with weights 1/3 (m large).",
    "exponential": "exponential: the papers' formula is exponential-directed's gap where m is a power of two.",
}
"""Where the papers' formula is not the gap of the graph it stands beside."""


@click.command("spectral-gap", short_help="Print how fast graphs mix, and the cost.")
@topologies_option
@sizes_option
@graph_options
@json_option
def spectral_gap(asked: list[str] | None, size: list[int] | None, as_json: bool, **options: Any) -> None:
    """Print how fast graphs mix and for how many messages, beside the papers' formulas."""
    graphs = build_all(asked, size, options)
    found = [analyse(graph) for graph in graphs]
    lost = [survivable_losses(graph, ROUNDS) for graph in graphs]
    if not as_json:
        _print_gaps(found, _losses(found, lost))
        return
    every = [analysis.as_dict() | {"survives": most} for analysis, most in zip(found, lost, strict=True)]
    click.echo(json.dumps(every[0] if len(every) == 1 else every, allow_nan=False))


def _losses(found: list[Analysis], lost: list[int | None]) -> list[str]:
    limited: dict[int, list[str]] = {}
    for analysis, most in zip(found, lost, strict=True):
        if most is not None:
            limited.setdefault(most, []).append(f"{analysis.topology} of {analysis.size}")
    if not limited:
        return []
    words = "; ".join(f"{most} of {', '.join(graphs)}" for most, graphs in sorted(limited.items()))
    return [f"May be lost, whichever they are, and the others stay in one piece: {words}. They go on if they are more "
            "than half of all peers (--quorum)."]  # fmt: skip


def _print_gaps(found: list[Analysis], losses: list[str]) -> None:
    table = plain_table(gap=1)
    table.add_column("topology", no_wrap=True, max_width=24)
    for heading in ("peers", "gap", "rounds\nto 1e-3", "sends", "gap per\nmessage", "papers'\ngap", "differ-\nence"):
        table.add_column(heading, justify="right", no_wrap=True)
    # By the gap; it and the rounds say the same of fixed graphs, but only rounds compare periods of different lengths.
    # Rounded, so that equal gaps stay in the order asked for.
    for analysis in sorted(found, key=lambda analysis: (analysis.rounds, -round(analysis.spectral_gap, 12))):
        fewest, most = analysis.degree_min, analysis.degree_max
        paper = analysis.paper_formula
        value = None if paper is None else paper.value
        table.add_row(
            analysis.topology,
            str(analysis.size),
            _short(analysis.spectral_gap),
            f"{analysis.rounds}" if analysis.rounds < 10**7 else f"{analysis.rounds:.1e}",
            str(most) if fewest == most else f"{fewest}-{most}",
            _short(analysis.gap_per_message),
            "-" if value is None else _short(value),
            "-" if value is None else _signed(analysis.spectral_gap, value),
        )
    console = Console(highlight=False)
    print_table(table)
    for line in [*_remarks(found), *losses]:
        console.print(line)


def _remarks(found: list[Analysis]) -> list[str]:
    lines = []
    by_name = {name: [a for a in found if a.topology == name] for name in dict.fromkeys(a.topology for a in found)}
    periods = [f"{name} {_periods(these)}" for name, these in by_name.items() if name in TIME_VARYING]
    if periods:
        lines.append(f"Changing every round; the gap is that of so many rounds together: {'; '.join(periods)}.")
    if losing := [name for name, these in by_name.items() if not these[0].doubly_stochastic]:
        lines.append(f"{', '.join(losing)}: rows sum to one, columns do not, so the average is not kept.")
    formulas = {a.topology: a.paper_formula.name for a in found if a.paper_formula is not None}
    if formulas:
        lines.append("Papers: " + "; ".join(f"{name} {formula}" for name, formula in formulas.items()) + ".")
    return lines + [NOTES[name] for name in formulas if name in NOTES]


def _periods(found: list[Analysis]) -> str:
    if len({a.period for a in found}) == 1:
        return str(found[0].period)
    return ", ".join(f"{a.period} ({a.size} peers)" for a in found)


def _short(value: float) -> str:
    return f"{value:.4f}" if abs(value) >= 0.001 else f"{value:.1e}"


def _signed(gap: float, paper: float) -> str:
    difference = gap - paper
    if abs(difference) < 1e-9 * paper:  # rounding of two values that are equal
        return "0"
    return f"{difference:+.4f}" if abs(difference) >= 0.001 else f"{difference:+.0e}"
