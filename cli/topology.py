"""`dpeer topology`: look at a graph before training on it."""

from __future__ import annotations

import json
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from dpeer.exceptions import ConfigurationError
from dpeer.topology import TOPOLOGIES, WEIGHTS, Analysis, Topology, analyse, build

MATRIX_LIMIT = 12
"""The largest size whose matrix is printed: it must fit 80 columns."""

EDGES_LIMIT = 100
"""The most edges printed."""

NOTES = {
    "ring": "ring: the papers' formula is 4 times (4/3) sin^2(pi/m), the gap with weights 1/3 (m large).",
    "exponential": "exponential: the papers' formula is exponential-directed's gap where m is a power of two.",
}
"""Where the papers' formula is not the gap of the graph it stands beside."""


def grid_shape(text: str) -> tuple[int, int]:
    """Rows and columns from 2x4."""
    rows, _, columns = text.lower().partition("x")
    if not (_is_number(rows) and _is_number(columns)):
        raise ConfigurationError(f"--grid-shape {text!r}: write ROWSxCOLUMNS, for example 2x4")
    return int(rows), int(columns)


def one_size(text: str) -> int:
    """One number of peers."""
    if not _is_number(text):
        raise ConfigurationError(f"--size {text!r}: write one whole number, for example 8")
    return int(text)


def sizes(text: str) -> list[int]:
    """Numbers of peers from 8,16."""
    parts = [part.strip() for part in text.split(",")]
    if not all(map(_is_number, parts)):
        raise ConfigurationError(f"--size {text!r}: write whole numbers, for example 8 or 8,16")
    return [int(part) for part in parts]


def names(text: str) -> list[str]:
    """Names from ring,full; `build` says which of them it does not know."""
    return [part.strip() for part in text.split(",")]


def graph_options(command: Any) -> Any:
    """The options that both commands take for a graph's details."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table."),
        click.option("--graph-seed", default=0, show_default=True, help="Draws random-regular."),
        click.option("--degree", default=4, show_default=True, help="Neighbors in random-regular."),
        click.option(
            "--grid-shape",
            type=grid_shape,
            metavar="RxC",
            help="Rows x columns of grid and torus.  [default: near square]",
        ),
        click.option("--weights", default="metropolis", show_default=True, help=f"{' or '.join(WEIGHTS)}."),
    ):
        command = option(command)
    return command


@click.group()
def topology() -> None:
    """Look at graphs, their mixing weights and how fast they mix."""


@topology.command()
@click.option("--topology", "name", default="ring", show_default=True, help=f"{', '.join(TOPOLOGIES)}.")
@click.option("--size", type=one_size, metavar="N", default="8", show_default=True, help="Number of peers.")
@graph_options
def show(name: str, size: int, as_json: bool, **options: Any) -> None:
    """Print a graph's edges and mixing weights."""
    shown = build(name, size, **options)
    if not as_json:
        _print_graph(shown)
        return
    document = {
        "topology": shown.name,
        "size": shown.size,
        "weights_rule": shown.weights_rule,
        "edges": shown.edges,
        "weights": shown.weights.tolist(),
    }
    click.echo(json.dumps(document, allow_nan=False))


@topology.command("spectral-gap")
@click.option(
    "--topology",
    "asked",
    type=names,
    metavar="NAME[,NAME...]",
    default="ring",
    show_default=True,
    help=f"One or more of {', '.join(TOPOLOGIES)}.",
)
@click.option(
    "--size",
    type=sizes,
    metavar="N[,N...]",
    default="8",
    show_default=True,
    help="One or more numbers of peers.",
)
@graph_options
def spectral_gap(asked: list[str], size: list[int], as_json: bool, **options: Any) -> None:
    """Print how fast graphs mix, beside the papers' formulas."""
    # Everything is built before anything is analysed: a name or size that does not exist is said at once.
    graphs = [build(name, peers, **options) for name in asked for peers in size]
    found = [analyse(graph) for graph in graphs]
    if not as_json:
        _print_gaps(found)
    elif len(found) == 1:
        click.echo(json.dumps(found[0].as_dict(), allow_nan=False))
    else:
        click.echo(json.dumps([analysis.as_dict() for analysis in found], allow_nan=False))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _print_graph(shown: Topology) -> None:
    console = Console(highlight=False)
    parameters = "".join(f", {key} {value}" for key, value in shown.parameters.items())
    console.print(f"{shown.name}, {shown.size} peers, weights {shown.weights_rule}{parameters}", markup=False)
    arrow = "->" if shown.directed else "-"
    edges = [f"{i}{arrow}{j}" for i, j in shown.edges[:EDGES_LIMIT]]
    more = len(shown.edges) - len(edges)
    console.print(
        f"{len(shown.edges)} edges{' (sender->receiver)' if shown.directed else ''}: {' '.join(edges)}"
        + (f" and {more} more (all with --json)" if more else ""),
        markup=False,
    )
    if shown.size > MATRIX_LIMIT:
        console.print(f"Weights are printed up to {MATRIX_LIMIT} peers; --json has them all.")
        return
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
        title="row: receiver, column: sender",
        title_justify="left",
    )
    table.add_column("", justify="right")
    for rank in range(shown.size):
        table.add_column(str(rank), justify="right")
    for rank, row in enumerate(shown.weights):
        table.add_row(str(rank), *(f"{weight:.3f}"[1:] if 0 < weight < 1 else "." for weight in row))
    console.print(table)


def _print_gaps(found: list[Analysis]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("topology", no_wrap=True)
    for heading in ("peers", "gap", "rounds\nto 1e-3", "degree", "sends", "papers'\ngap", "differ-\nence"):
        table.add_column(heading, justify="right", no_wrap=True)
    # Rounded, so that equal gaps stay in the order asked for.
    for analysis in sorted(found, key=lambda analysis: -round(analysis.spectral_gap, 12)):
        fewest, most = analysis.degree_min, analysis.degree_max
        paper = analysis.paper_formula
        value = None if paper is None else paper.value
        table.add_row(
            analysis.topology,
            str(analysis.size),
            _short(analysis.spectral_gap),
            str(analysis.rounds),
            str(most) if fewest == most else f"{fewest}-{most}",
            f"{analysis.bytes_per_round_factor:.4g}",
            "-" if value is None else _short(value),
            "-" if value is None else _signed(analysis.spectral_gap - value),
        )
    console = Console(highlight=False)
    console.print(table)
    formulas = {a.topology: a.paper_formula.name for a in found if a.paper_formula is not None}
    console.print("Papers: " + "; ".join(f"{name} {formula}" for name, formula in formulas.items()) + ".")
    for name in formulas:
        if name in NOTES:
            console.print(NOTES[name])


def _short(value: float) -> str:
    return f"{value:.4f}" if value >= 0.001 else f"{value:.1e}"


def _signed(difference: float) -> str:
    if abs(difference) < 1e-12:  # rounding of two values that are equal
        return "0"
    return f"{difference:+.4f}" if abs(difference) >= 0.001 else f"{difference:+.1e}"
