"""`dpeer topology show`: a graph's edges and weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from dpeer.cli.tables import json_option, print_table
from dpeer.cli.topology.options import build_one, graph_options, size_option, topology_option
from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.optional_libraries import check_libraries
from dpeer.topology import Topology, spectral_gap
from dpeer.topology.declared import stationary

MATRIX_LIMIT = 12
"""The largest size whose matrix is printed: it must fit 80 columns."""

EDGES_LIMIT = 100
"""The most edges printed."""

LIMIT = 2000
"""The largest size whose edges and weights are given at all."""

DRAWN_LIMIT = 200
"""The largest size that is drawn: beyond, dots merge."""


@click.command()
@topology_option
@size_option
@graph_options
@click.option(
    "--plot", "picture", type=click.Path(path_type=Path), metavar="FILE",
    help="Draw the graph in a .png or .svg, in place of printing it.",
)  # fmt: skip
@json_option
def show(name: str | None, size: int | None, picture: Path | None, as_json: bool, **options: Any) -> None:
    """Print a graph's edges and mixing weights, or draw it."""
    if picture is not None:
        _check_path(picture)
    shown = build_one(name, size, options)
    what, limit = ("edges and weights are shown", LIMIT) if picture is None else ("graphs are drawn", DRAWN_LIMIT)
    if shown.size > limit:
        raise ConfigurationError(
            f"--size {shown.size}: {what} up to {limit} peers; `dpeer topology spectral-gap` takes 100,000"
        )
    if picture is not None:
        _draw(shown, picture)
        return
    if not as_json:
        _print_graph(shown)
        return
    document: dict[str, Any] = {"topology": shown.label, "size": shown.size, "weights_rule": shown.weights_rule}
    if shown.declared:
        document |= {
            "declared": shown.declared, "stationary": stationary(shown.declared).tolist(),
            "spectral_gap": spectral_gap(shown),
        }  # fmt: skip
    if shown.changing:
        rounds = range(shown.period)
        document["edges"] = sorted({tuple(edge) for number in rounds for edge in shown.edges_at(number)})
        document["weights"] = _together(shown).tolist()
        document["period"] = shown.period
        document["rounds"] = [
            {"round": number, "edges": shown.edges_at(number), "weights": shown.weights_at(number).tolist()}
            for number in rounds
        ]
    else:
        document["edges"] = shown.edges
        document["weights"] = shown.weights.tolist()
    click.echo(json.dumps(document, allow_nan=False))


def _check_path(path: Path) -> None:
    if path.suffix.lower() not in (".png", ".svg"):
        raise ConfigurationError(f"--plot {str(path)!r}: name a file that ends in .png or .svg")
    if not path.parent.is_dir():
        raise OutputError(f"--plot {str(path)!r}: no such folder: {str(path.parent)!r}")
    check_libraries("dpeer topology show --plot", "plot", matplotlib="matplotlib")


def _draw(shown: Topology, path: Path) -> None:
    from dpeer.report.topology_plot import picture  # needs matplotlib, an optional library

    image = picture(shown, path.suffix.lower().removeprefix("."))
    try:
        path.write_bytes(image)
    except OSError as error:
        raise OutputError(f"--plot {str(path)!r} cannot be written: {error.strerror}") from error
    click.echo(f"{path}: {shown.label} of {shown.size} peers")


def _together(shown: Topology) -> NDArray[np.float64]:
    """The effect of a period: the product of its matrices, the first round's to the right."""
    product = np.eye(shown.size)
    for number in range(shown.period):
        product = shown.weights_at(number) @ product
    return product


def _print_graph(shown: Topology) -> None:
    console = Console(highlight=False)
    parameters = "".join(f", {key} {value}" for key, value in shown.parameters.items())
    console.print(f"{shown.label}, {shown.size} peers, weights {shown.weights_rule}{parameters}", markup=False)
    if shown.changing:
        again = "and so on" if shown.repeats is None else "then again from the first"
        which = "is round 0" if shown.period == 1 else f"are rounds 0 to {shown.period - 1}"
        console.print(f"A new graph every round; shown {which}, {again}.")
        for number in range(shown.period):
            _print_edges(console, f"round {number}: ", shown.edges_at(number), shown.directed)
        several = f"weights of {shown.period} rounds together, " if shown.period > 1 else ""
        title, weights = f"{several}row: receiver, column: sender", _together(shown)
    else:
        _print_edges(console, "", shown.edges, shown.directed)
        title, weights = "row: receiver, column: sender", shown.weights
    if shown.declared:
        console.print(kept_mean(shown.declared))
        console.print(f"gap: {spectral_gap(shown):.4f}{f' of {shown.period} rounds' if shown.period > 1 else ''}")
    elif not shown.doubly_stochastic:
        console.print("Columns do not sum to one: the average over the peers is not kept.")
    if shown.size > MATRIX_LIMIT:
        console.print(f"Weights are printed up to {MATRIX_LIMIT} peers; --json has them all.")
        return
    console.print(title)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("", justify="right")
    for rank in range(shown.size):
        table.add_column(str(rank), justify="right")
    for rank, row in enumerate(weights):
        table.add_row(str(rank), *map(_weight, row))
    print_table(table)


def kept_mean(declared: Sequence[float]) -> str:
    """The mean that gossip keeps with declared weights."""
    if len({*declared}) == 1:
        return "p is equal for all ranks: W is that of metropolis, and doubly stochastic."
    shares = [f"{share:.4f}".removeprefix("0") for share in stationary(declared)[:EDGES_LIMIT]]
    more = len(declared) - EDGES_LIMIT
    rest = f" and {more} more (all with --json)" if more > 0 else ""
    return (
        f"p = {' '.join(shares)}{rest}, by rank: W is reversible, p_i W_ij = p_j W_ji, and not doubly stochastic: "
        "gossip keeps the mean by p."
    )


def _weight(weight: float) -> str:
    if weight < 0.0005:
        return "."
    return "1" if weight > 0.9995 else f"{weight:.3f}"[1:]


def _print_edges(console: Console, start: str, edges: list[list[int]], directed: bool) -> None:
    arrow = "->" if directed else "-"
    listed = " ".join(f"{i}{arrow}{j}" for i, j in edges[:EDGES_LIMIT])
    more = len(edges) - EDGES_LIMIT
    direction = " (sender->receiver)" if directed else ""
    rest = f" and {more} more (all with --json)" if more > 0 else ""
    console.print(f"{start}{len(edges)} edges{direction}: {listed}{rest}", markup=False)
