"""`dpeer topology`: a graph's edges and weights (`show`), and graphs beside each other (`spectral-gap`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from dpeer.cli.click_from_setting import F, stated
from dpeer.cli.tables import filled, json_option, plain_table, print_table
from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.optional_libraries import check_libraries
from dpeer.results import units
from dpeer.sections import names
from dpeer.topology import TIME_VARYING, TOPOLOGIES, Analysis, Topology, analyse, build, size_of, split_names
from dpeer.topology import spectral_gap as gap_of
from dpeer.topology.mixing_matrix import DECLARED, stationary
from dpeer.topology.settings import GraphSettings
from dpeer.topology.spectrum import LIMIT, survivable_losses
from dpeer.topology.user_graphs import is_function

DEFAULT_SIZE = 8

MATRIX_LIMIT = 12
"""The largest size whose matrix is printed: it must fit 80 columns."""

EDGES_LIMIT = 100
"""The most edges printed."""

SHOWN_LIMIT = 2000
"""The largest size whose edges and weights are given at all."""

DRAWN_LIMIT = 200
"""The largest size that is drawn: beyond, dots merge."""

ROUNDS = 20
"""Of a run: the graphs of so many rounds together are searched for survivable losses."""

NAMES = ", ".join([*(kind.form for kind in TOPOLOGIES.values()), "file:PATH", "FILE.py:FUNCTION"])


@click.group()
def topology() -> None:
    """Look at graphs, their mixing weights and how fast they mix."""


def _sizes(text: str) -> list[int]:
    """Numbers of peers, such as 8,16."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigurationError(f"--size {text!r}: write whole numbers, for example 8 or 8,16")
    return [int(part) for part in parts]


def _graph_options(command: F) -> F:
    """The options that both commands take for a graph's details; None where an option is not given."""
    command = stated(GraphSettings, "weights", "graph_seed", default=None)(command)
    return click.option(
        "--federation", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
        help="Federation file whose graph and weights are taken; options win.",
    )(command)  # fmt: skip


def _build_all(asked: list[str] | None, sizes: list[int] | None, options: Mapping[str, Any]) -> list[Topology]:
    """Every topology of these names in every size; all are built before one is analyzed, so a mistake shows at once.

    Args:
        asked: Names of graphs; None for that of the federation file, or a ring.
        sizes: Numbers of peers; None for that of the federation file, or of a graph's own file.
        options: The values of `_graph_options`.

    Raises:
        ConfigurationError: One of them does not exist.
    """
    details, secret = dict[str, Any](), None
    given = {name: value for name, value in options.items() if value is not None and name != "federation"}
    if options["federation"] is not None:
        from dpeer.federation.config import load  # torch, which takes a second

        # The file has the numbers of declared weights.
        flags = {"weights": given.pop("weights")} if given.get("weights") == DECLARED else {}
        settings = load(options["federation"], flags)
        details, secret = {name: getattr(settings, name) for name in names(GraphSettings)}, settings.secret
    details |= given
    first, size = details.pop("topology", "ring"), details.pop("size", None)
    for name in filter(is_function, asked or [first]):
        from dpeer.federation.policy import check_graph  # ZeroMQ, which all others do without

        check_graph(name, secret)

    def size_for(name: str) -> int:
        return size or (size_of(name) if name.startswith("file:") else DEFAULT_SIZE)

    return [build(name, one, **details) for name in asked or [first] for one in sizes or [size_for(name)]]


@topology.command()
@click.option("--topology", "name", default=None, help=f"{NAMES}.  [default: ring]")
@click.option(
    "--size", type=int, metavar="N", help=f"Number of peers.  [default: {DEFAULT_SIZE}, or that of file:PATH]"
)
@_graph_options
@click.option(
    "--plot", "picture", type=click.Path(path_type=Path), metavar="FILE",
    help="Draw the graph in a .png or .svg, in place of printing it.",
)  # fmt: skip
@json_option
def show(name: str | None, size: int | None, picture: Path | None, as_json: bool, **options: Any) -> None:
    """Print a graph's edges and mixing weights, or draw it."""
    (shown,) = _build_all(None if name is None else [name], None if size is None else [size], options)
    what, limit = ("graphs are drawn", DRAWN_LIMIT) if picture else ("edges and weights are shown", SHOWN_LIMIT)
    if shown.size > limit:
        raise ConfigurationError(
            f"--size {shown.size}: {what} up to {limit} peers; `dpeer topology spectral-gap` takes 100,000"
        )
    if picture is not None:
        _draw(shown, picture)
    elif as_json:
        click.echo(json.dumps(_as_json(shown), allow_nan=False))
    else:
        _print_graph(shown)


def _as_json(shown: Topology) -> dict[str, Any]:
    document: dict[str, Any] = {"topology": shown.label, "size": shown.size, "weights_rule": shown.weights_rule}
    if shown.declared:
        p = stationary(shown.declared).tolist()
        document |= {"declared": shown.declared, "stationary": p, "spectral_gap": gap_of(shown)}
    if not shown.changing:
        return document | {"edges": shown.edges, "weights": shown.weights.tolist()}
    rounds = [
        {"round": number, "edges": shown.edges_at(number), "weights": shown.weights_at(number).tolist()}
        for number in range(shown.period)
    ]
    edges = sorted({tuple(edge) for one in rounds for edge in one["edges"]})
    return document | {
        "edges": edges, "weights": _together(shown).tolist(), "period": shown.period, "rounds": rounds,
    }  # fmt: skip


def _draw(shown: Topology, path: Path) -> None:
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in ("png", "svg"):
        raise ConfigurationError(f"--plot {str(path)!r}: name a file that ends in .png or .svg")
    check_libraries("dpeer topology show --plot", "plot", matplotlib="matplotlib")
    from dpeer.report.graphs import picture  # needs matplotlib

    try:
        path.write_bytes(picture(shown, suffix))
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
    title = "row: receiver, column: sender"
    if shown.changing:
        again = "and so on" if shown.repeats is None else "then again from the first"
        which = "is round 0" if shown.period == 1 else f"are rounds 0 to {shown.period - 1}"
        console.print(f"A new graph every round; shown {which}, {again}.")
        title = f"weights of {shown.period} rounds together, {title}" if shown.period > 1 else title
    for number in range(shown.period):
        _print_edges(console, f"round {number}: " if shown.changing else "", shown.edges_at(number), shown.directed)
    if shown.declared:
        console.print(_kept_mean(shown.declared))
        console.print(f"gap: {gap_of(shown):.4f}{f' of {shown.period} rounds' if shown.period > 1 else ''}")
    elif not shown.doubly_stochastic:
        console.print("Columns do not sum to one: the average over the peers is not kept.")
    if shown.size > MATRIX_LIMIT:
        console.print(f"Weights are printed up to {MATRIX_LIMIT} peers; --json has them all.")
        return
    console.print(title)
    columns = dict.fromkeys(("", *map(str, range(shown.size))), "right")
    print_table(
        filled(plain_table(gap=1), columns, ((i, *map(_weight, row)) for i, row in enumerate(_together(shown))))
    )


def _kept_mean(declared: Sequence[float]) -> str:
    """The mean that gossip keeps with declared weights."""
    if len({*declared}) == 1:
        return "p is equal for all ranks: W is that of metropolis, and doubly stochastic."
    shares = [f"{share:.4f}".removeprefix("0") for share in stationary(declared)[:EDGES_LIMIT]]
    return (
        f"p = {' '.join(shares)}{_more(declared)}, by rank: W is reversible, p_i W_ij = p_j W_ji, and not doubly "
        "stochastic: gossip keeps the mean by p."
    )


def _more(listed: Sequence[object]) -> str:
    more = len(listed) - EDGES_LIMIT
    return f" and {more} more (all with --json)" if more > 0 else ""


def _weight(weight: float) -> str:
    if weight < 0.0005:
        return "."
    return "1" if weight > 0.9995 else f"{weight:.3f}"[1:]


def _print_edges(console: Console, start: str, edges: list[list[int]], directed: bool) -> None:
    arrow, direction = ("->", " (sender->receiver)") if directed else ("-", "")
    listed = " ".join(f"{i}{arrow}{j}" for i, j in edges[:EDGES_LIMIT])
    console.print(f"{start}{len(edges)} edges{direction}: {listed}{_more(edges)}", markup=False)


@topology.command("spectral-gap", short_help="Compare graphs: how fast they mix, and the cost.")
@click.option(
    "--topology", "asked", type=split_names, metavar="NAME[,NAME...]", help=f"One or more of {NAMES}.  [default: ring]"
)
@click.option(
    "--size", "sizes", type=_sizes, metavar="N[,N...]",
    help=f"One or more numbers of peers.  [default: {DEFAULT_SIZE}, or that of file:PATH]",
)  # fmt: skip
@click.option(
    "--body-bytes", metavar="BYTES", help="Size of one body, such as 45MB or 43MiB: float32 takes 4 bytes a parameter."
)
@click.option("--bandwidth", metavar="RATE", help="What a peer sends, and receives at once: 100Mbit or 12.5MB/s.")
@_graph_options
@json_option
def spectral_gap(
    asked: list[str] | None, sizes: list[int] | None, body_bytes: str | None, bandwidth: str | None, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Compare graphs: how fast they mix, what they survive, and what a round costs.

    \b
    Example:
      dpeer topology spectral-gap --topology ring,grid,exponential,full --size 16 --body-bytes 45MB --bandwidth 100Mbit
    """  # noqa: D301 - \b is click's
    body = None if body_bytes is None else units.read_size("--body-bytes", body_bytes)
    rate = None if bandwidth is None else units.read_rate("--bandwidth", bandwidth)
    if rate is not None and body is None:
        raise ConfigurationError("--bandwidth needs the size of a body: give --body-bytes, for example 45MB")
    rows = []
    for graph in _build_all(asked, sizes, options):
        analysis = analyse(graph)
        costs: dict[str, Any] = {"survives": survivable_losses(graph, ROUNDS)}
        if body is not None:  # of the busiest peer
            costs["bytes_per_round"] = body * analysis.degree_max
        if body is not None and rate is not None:
            costs["seconds_per_round"] = 8 * body * analysis.degree_max / rate
        rows.append((analysis, costs))
    if as_json:
        every = [analysis.as_dict() | costs for analysis, costs in rows]
        click.echo(json.dumps(every[0] if len(every) == 1 else every, allow_nan=False))
    else:
        _print_rows(rows)


_COSTS = {"bytes_per_round": ("a round\nsends", units.size), "seconds_per_round": ("a round\ntakes", units.duration)}

_Rows = list[tuple[Analysis, dict[str, Any]]]


def _print_rows(rows: _Rows) -> None:
    table = plain_table(gap=1)
    table.add_column("topology", no_wrap=True, max_width=24)
    known = [one for name, one in _COSTS.items() if name in rows[0][1]]
    for heading in ("peers", "degree", "gap", "rounds\nto half", "may\nlose", *(heading for heading, _ in known)):
        table.add_column(heading, justify="right", no_wrap=True)
    # Gaps are rounded, so that equal ones stay in the order asked for.
    for one, costs in sorted(rows, key=lambda row: (row[0].rounds_to_half, -round(row[0].spectral_gap, 12))):
        fewest, most, rounds, gap = one.degree_min, one.degree_max, one.rounds_to_half, one.spectral_gap
        table.add_row(
            one.topology,
            str(one.size),
            str(most) if fewest == most else f"{fewest}-{most}",
            f"{gap:.4f}" if gap >= 0.001 else f"{gap:.1e}",
            str(rounds) if rounds < 10**7 else f"{rounds:.1e}",
            "-" if costs["survives"] is None else str(costs["survives"]),
            *(words(costs[name]) for name, (_, words) in _COSTS.items() if name in costs),
        )
    console = Console(highlight=False)
    print_table(table)
    for line in _remarks(rows):
        console.print(line)


def _remarks(rows: _Rows) -> list[str]:
    lines = [
        "rounds to half: rounds of gossip until half of the worst disagreement is left. may lose: so many peers, any "
        "of them, and the others stay connected; they go on if they are more than half of all (--quorum)."
    ]
    if any(costs["survives"] is None for _, costs in rows):
        lines.append(f"What may be lost is computed up to {LIMIT} peers.")
    by_name: dict[str, list[Analysis]] = {}
    for analysis, _ in rows:
        by_name.setdefault(analysis.topology, []).append(analysis)
    periods = [f"{name} {_periods(these)}" for name, these in by_name.items() if name.partition(":")[0] in TIME_VARYING]
    if periods:
        lines.append(f"Changing every round; the gap is that of so many rounds together: {'; '.join(periods)}.")
    if (p := rows[0][0].stationary) is not None:
        lines.append(f"Weights declared: {_kept_mean(p)} The gap is that of D^1/2 W D^-1/2, D = diag(p).")
    losing = [name for name, these in by_name.items() if not these[0].doubly_stochastic and not these[0].stationary]
    if losing:
        lines.append(f"{', '.join(losing)}: rows sum to one, columns do not, so the average is not kept.")
    return lines


def _periods(found: list[Analysis]) -> str:
    if len({a.period for a in found}) == 1:
        return str(found[0].period)
    return ", ".join(f"{a.period} ({a.size} peers)" for a in found)
