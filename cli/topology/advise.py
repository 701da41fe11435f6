"""`dpeer topology advise`: which graph to run on a given uplink."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from dpeer.cli.click_from_setting import stated
from dpeer.cli.tables import json_option, plain_table
from dpeer.cli.topology.options import DEFAULT_SIZE, one_size
from dpeer.exceptions import ConfigurationError
from dpeer.results import units
from dpeer.results.units import size as as_size
from dpeer.topology.advice import CHOOSING, DEFAULT_WEIGHTS, Excluded, Ranked, Requirements, best, rank_graphs
from dpeer.topology.settings import GraphSettings

SURVIVES = (
    "may lose: so many peers, whichever they are, and the others stay in one piece; they go on if they are more than "
    "half of all (--quorum)."
)
EXAMPLE = "--body-bytes 45MB --bandwidth 100Mbit"


def _most(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise ConfigurationError(f"--max-degree {text!r}: write a whole number from 1 on, for example 6")
    return int(text)


@click.command(short_help="Rank graphs for your body and bandwidth.")
@click.option(
    "--size", type=one_size, metavar="N", default=str(DEFAULT_SIZE), show_default=True, help="Number of peers."
)
@click.option(
    "--body-bytes", metavar="BYTES", help="Size of one body, e.g. 45MB or 43MiB: float32 takes 4 bytes a parameter."
)
@click.option(
    "--bandwidth", metavar="RATE",
    help="Bandwidth of every peer, up and as much down: 100Mbit, 100Mbps, 12.5MB/s (B is a byte, b a bit).",
)  # fmt: skip
@click.option(
    "--train-seconds", metavar="TIME", default="0", show_default=True, help="How long a peer trains in every round."
)
@click.option(
    "--latency", metavar="TIME", default="0", show_default=True,
    help="Added to every round: how long a message is under way, e.g. 20ms.",
)  # fmt: skip
@click.option(
    "--max-degree", type=_most, metavar="K",
    help="The most bodies that a peer may send or receive in one round.  [default: any number]",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(min=1), default=20, show_default=True,
    help="Rounds of the planned run: a graph that changes gives a peer other partners in them, which are counted.",
)  # fmt: skip
@stated(GraphSettings, "weights", "graph_seed")
@json_option
def advise(
    size: int,
    body_bytes: str | None,
    bandwidth: str | None,
    train_seconds: str,
    latency: str,
    max_degree: int | None,
    rounds: int,
    as_json: bool,
    **graph: Any,
) -> None:
    """Rank graphs by the time that gossip takes to reduce disagreement 1000-fold.

    A round takes the training, the latency, and the time of the busiest peer: the bodies that it sends or receives,
    whichever are more, at its bandwidth; it does both at once, and no peer goes on before the busiest is done.
    The time of a graph is that of its slowest round times its rounds to 1e-3.

    \b
    Example:
      dpeer topology advise --size 16 --body-bytes 45MB --bandwidth 100Mbit
    """  # noqa: D301 - \b is click's
    given = {"--body-bytes": body_bytes, "--bandwidth": bandwidth}
    if missing := [option for option, text in given.items() if text is None]:
        raise ConfigurationError(
            f"{' and '.join(missing)} must be given, for example dpeer topology advise --size {size} {EXAMPLE}"
        )
    terms = Requirements(
        size=size,
        body_bytes=units.read_size("--body-bytes", body_bytes or ""),
        bandwidth=units.read_rate("--bandwidth", bandwidth or ""),
        train_seconds=units.read_duration("--train-seconds", train_seconds),
        latency=units.read_duration("--latency", latency),
        max_degree=max_degree,
        rounds=rounds,
        **graph,
    )
    ranked, left_out = rank_graphs(terms)
    if as_json:
        document = {
            "ranking": [dataclasses.asdict(one) for one in ranked],
            "left_out": [{"topology": one.topology, "options": one.options, "reason": one.reason} for one in left_out],
        }
        click.echo(json.dumps(document, allow_nan=False))
        return
    console = Console(highlight=False)
    console.print(_heading(terms), markup=False)
    console.print(_table(ranked))
    for line in _remarks(ranked, left_out, terms):
        console.print(line, markup=False)
    _print_command(console, ranked)


def arguments(topology: str, options: Mapping[str, Any]) -> str:
    """The options with which the commands that train run on this graph."""
    words = {"degree": "--degree", "weights": "--weights", "graph_seed": "--graph-seed"}
    rest = [f"{word} {options[name]}" for name, word in words.items() if name in options]
    if "fresh_neighbors" in options:
        directed = "directed:" if topology == "fresh-directed" else ""
        return " ".join([f"--fresh-neighbors {directed}{options['fresh_neighbors']}", *rest])
    return " ".join([f"--topology {topology}", *rest])


def _label(topology: str, options: Mapping[str, Any], number: str = "") -> str:
    """A graph's name in a table, without the options that all graphs of the table have."""
    name = CHOOSING.get(topology, "")
    if name not in options:
        return topology
    number = number or str(options[name])
    # As an option it is too long for a line; a remark below the table has it.
    if topology == "fresh-directed":
        return f"{topology} {number}"
    return arguments(topology, {name: number}).removeprefix("--topology ")


def _heading(terms: Requirements) -> str:
    times = {"training": terms.train_seconds, "latency": terms.latency}
    parts = [
        f"{terms.size} peers",
        f"body {as_size(terms.body_bytes)}",
        f"{units.rate(terms.bandwidth)} up and down",
        *(f"{name} {units.duration(seconds)}" for name, seconds in times.items() if seconds),
        *([f"weights {terms.weights}"] if terms.weights != DEFAULT_WEIGHTS else []),
    ]
    return ", ".join(parts)


def _table(ranked: list[Ranked]) -> Table:
    table = plain_table(gap=0)
    table.add_column("topology", overflow="fold")
    survival = any(one.survives is not None for one in ranked)
    headings = ("sends", "part-\nners", "rounds", "a round\ntakes", "time\nin all", "a peer\nsends")
    for heading in (*headings, "may\nlose") if survival else headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for one in ranked:
        table.add_row(
            _label(one.topology, one.options) + ("" if one.doubly_stochastic else "*"),
            str(one.sends),
            str(one.partners),
            str(one.rounds),
            units.duration(one.seconds_per_round),
            units.duration(one.seconds),
            as_size(one.bytes_sent),
            *([str(one.survives)] if survival else []),
        )
    return table


def _remarks(ranked: list[Ranked], left_out: list[Excluded], terms: Requirements) -> list[str]:
    lines = [
        "rounds: until disagreement is a thousandth. sends: bodies of the busiest peer in one round. partners: how "
        f"many others a peer is connected to in a run of {terms.rounds} rounds (--rounds), whom its firewall must let "
        "through.",
        *([SURVIVES] if any(one.survives is not None for one in ranked) else []),
        "A round takes training + latency + what the busiest peer sends or receives (the larger) / bandwidth.",
    ]
    if any(one.topology == "fresh-directed" for one in ranked):
        lines.append(
            "* fresh-directed K is --fresh-neighbors directed:K; columns of its matrix do not sum to one, the average "
            "is not kept."
        )
    if left_out:
        reasons: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
        for one in left_out:
            reasons.setdefault(one.short, {}).setdefault(one.topology, []).append(one.options)
        listed = "; ".join(
            ", ".join(_together(topology, every) for topology, every in graphs.items()) + f" ({why})"
            for why, graphs in reasons.items()
        )
        lines.append(f"Left out: {listed}.")
    lines.append(
        "This is gossip alone. Training mixes and moves at the same time: the times rank graphs, they do not predict "
        "accuracy."
    )
    return lines


def _together(topology: str, every: list[Mapping[str, Any]]) -> str:
    """One name for a graph with several options: `--fresh-neighbors 2/3/4`."""
    return _label(topology, every[0], "/".join(str(number) for options in every for number in options.values()))


def _print_command(console: Console, ranked: list[Ranked]) -> None:
    first = best(ranked)
    console.print("Fastest:" if ranked[0].doubly_stochastic else "Fastest that keeps the average:")
    # Not wrapped, so that it can be copied whole.
    console.print(
        f"  dpeer cluster --size {first.size} {arguments(first.topology, first.options)}", markup=False, soft_wrap=True
    )
