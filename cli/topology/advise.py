"""`dpeer topology advise`: which graph to run on a given uplink."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
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
from dpeer.topology.transfer_time import LineSpeed, MeasuredLines

SURVIVES = (
    "may lose: so many peers / lines between peers, whichever they are, and the others stay in one piece; they go on "
    "if they are more than half of all (--quorum)."
)
DEFAULT_LINES = Path("dpeer-run")
"""Where measured lines are looked for if neither they nor a bandwidth is given: the default of --out."""
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
    "--body-bytes",
    metavar="BYTES",
    help="Size of one body, e.g. 45MB or 43MiB: float32 takes 4 bytes a parameter.  [default: as --lines has it]",
)
@click.option(
    "--bandwidth", metavar="RATE",
    help="Bandwidth of every peer, up and as much down: 100Mbit, 100Mbps, 12.5MB/s (B is a byte, b a bit).",
)  # fmt: skip
@click.option(
    "--lines", "folder", metavar="FOLDER", type=click.Path(path_type=Path),
    help="Folder with the measured lines of ranks (lines-R.json of dpeer check --connect), in place of --bandwidth.  "
    f"[default: {DEFAULT_LINES}, where no bandwidth is given]",
)  # fmt: skip
@click.option(
    "--compress", metavar="NAME", default="float32", show_default=True,
    help="How bodies become bytes, as with dpeer start; --body-bytes stays that of float32.",
)  # fmt: skip
@click.option(
    "--overlap", type=click.Choice(["0", "1"]), default="0", show_default=True,
    help="1: bodies travel while the next round trains, and are mixed one round late.",
)  # fmt: skip
@click.option(
    "--train-seconds", metavar="TIME", default="0", show_default=True, help="How long a peer trains in every round."
)
@click.option(
    "--latency", metavar="TIME", default="0", show_default=True,
    help="One-way delay of a message, added to every round, e.g. 20ms; measured lines have their own round trips.",
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
    folder: Path | None,
    compress: str,
    overlap: str,
    train_seconds: str,
    latency: str,
    max_degree: int | None,
    rounds: int,
    as_json: bool,
    **graph: Any,
) -> None:
    """Rank graphs by the time that gossip takes to reduce disagreement 1000-fold.

    A round takes the training, the latency, and the exchange of the busiest peer: the bodies that it sends or
    receives, whichever are more, at its bandwidth. A peer sends and receives at once, and no peer goes on before the
    busiest is done. With --overlap 1 a round takes the longer of training and the rest. The time of a graph is its
    slowest round times its rounds to a disagreement of 1e-3.

    \b
    Examples:
      dpeer topology advise --size 16 --body-bytes 45MB --bandwidth 100Mbit
      dpeer topology advise --size 8 --lines dpeer-run
    """  # noqa: D301 - \b is click's
    measured = _measured(folder, size, asked=folder is not None or bandwidth is None)
    if measured and bandwidth is not None:
        raise ConfigurationError("--bandwidth and --lines exclude each other: take what was measured, or state a rate")
    plain = _body(body_bytes, folder, measured)
    missing = ["--body-bytes"] * (plain is None) + ["--bandwidth"] * (bandwidth is None and not measured)
    if plain is None or missing:
        raise ConfigurationError(
            f"{' and '.join(missing)} must be given, for example dpeer topology advise --size {size} {EXAMPLE}"
            + ("; or measure the lines with dpeer check --connect (--lines FOLDER)" if bandwidth is None else "")
        )
    terms = Requirements(
        size=size,
        body_bytes=_compressed(compress, plain),
        bandwidth=0.0 if measured else units.read_rate("--bandwidth", bandwidth or ""),
        train_seconds=units.read_duration("--train-seconds", train_seconds),
        latency=units.read_duration("--latency", latency),
        max_degree=max_degree,
        rounds=rounds,
        overlap=overlap == "1",
        lines=None if not measured else MeasuredLines(size, measured),
        steady=_steady(compress),
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
    console.print(_heading(terms, compress, measured), markup=False)
    console.print(_table(ranked))
    for line in _remarks(ranked, left_out, terms):
        console.print(line, markup=False)
    _print_command(console, ranked, [*(["--overlap 1"] if terms.overlap else []),
                                     *([f"--compress {compress}"] if compress != "float32" else [])])  # fmt: skip


def _measured(folder: Path | None, size: int, *, asked: bool) -> dict[int, dict[int, LineSpeed]]:
    """What was measured of lines between these ranks; empty where it is not asked for, or nothing was."""
    if not asked:
        return {}
    from dpeer.federation.measured_lines import read_lines

    found = read_lines(folder or DEFAULT_LINES)
    kept = {rank: {one: line for one, line in lines.items() if one < size} for rank, lines in found.items()}
    kept = {rank: lines for rank, lines in kept.items() if rank < size and lines}
    if folder is not None and not kept:
        raise ConfigurationError(
            f"--lines {folder}: it has no lines-R.json with a line between ranks below {size}: measure with "
            "dpeer check --rank R --connect"
        )
    return kept


def _body(stated: str | None, folder: Path | None, measured: Iterable[int]) -> int | None:
    """The bytes of a body in float32, as stated or by the files of the ranks that have measured; None if unknown."""
    if stated is not None:
        return units.read_size("--body-bytes", stated)
    from dpeer.federation.measured_lines import read_body_bytes

    return read_body_bytes(folder or DEFAULT_LINES, measured)


def _compressed(compress: str, plain: int) -> int:
    """The bytes of a body in a codec, of which the bytes in float32 are known."""
    if compress == "float32":
        return plain
    from dpeer.training.codecs import compressed_bytes  # torch, which takes a second
    from dpeer.training.compress_setting import Compression

    try:
        if Compression.parse(compress).kind in ("powersgd", "class"):
            raise ValueError("its bytes depend on more than their number: give --body-bytes as dpeer check shows them")
        return compressed_bytes(compress, [(max(1, plain // 4),)])
    except ValueError as error:
        raise ConfigurationError(f"--compress {compress}: {error}") from error


def _steady(compress: str) -> str | None:
    """The option itself, if its codec is refused where neighbors change from round to round."""
    if compress == "float32":
        return None
    import torch

    from dpeer.training.codecs import new_codec

    try:
        new_codec(compress, torch.zeros(1), 0, steady=False)
    except ConfigurationError:
        return f"--compress {compress}"
    return None


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


def _heading(terms: Requirements, compress: str, measured: Mapping[int, Mapping[int, LineSpeed]]) -> str:
    times = {"training": terms.train_seconds, "latency": terms.latency}
    parts = [
        f"{terms.size} peers",
        f"body {as_size(terms.body_bytes)}{'' if compress == 'float32' else f' as {compress}'}",
        _rates(terms, measured),
        *(["--overlap 1"] if terms.overlap else []),
        *(f"{name} {units.duration(seconds)}" for name, seconds in times.items() if seconds),
        *([f"weights {terms.weights}"] if terms.weights != DEFAULT_WEIGHTS else []),
    ]
    return ", ".join(parts)


def _rates(terms: Requirements, measured: Mapping[int, Mapping[int, LineSpeed]]) -> str:
    """The rates of the lines in words."""
    if terms.lines is None:
        return f"{units.rate(terms.bandwidth)} up and down"
    pairs = {frozenset((rank, one)) for rank, lines in measured.items() for one in lines}
    every = [min(one.sends, one.receives) for lines in measured.values() for one in lines.values()]
    trips = [one.round_trip for lines in measured.values() for one in lines.values()]
    return (
        f"{len(pairs)} measured line{'s' * (len(pairs) > 1)} of {units.rate(min(every))} to {units.rate(max(every))}, "
        f"round trips {units.duration(min(trips))} to {units.duration(max(trips))}"
    )


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
            *([f"{one.survives}/{one.survives_edges}"] if survival else []),
        )
    return table


def _remarks(ranked: list[Ranked], left_out: list[Excluded], terms: Requirements) -> list[str]:
    lines = [
        "rounds: until disagreement is a thousandth. sends: bodies of the busiest peer in one round. partners: how "
        f"many others a peer is connected to in a run of {terms.rounds} rounds (--rounds), whom its firewall must let "
        "through.",
        *([SURVIVES] if any(one.survives is not None for one in ranked) else []),
        _formula(terms),
    ]
    if terms.overlap:
        lines.append("Mixed a round late, by half, disagreement shrinks more slowly: rounds are those of --overlap 1.")
    if terms.steady is not None:
        lines.append(f"With {terms.steady} a mix takes a part of the difference: agreement takes more rounds.")
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


def _formula(terms: Requirements) -> str:
    """What a round takes, in words."""
    exchange = "what the busiest peer sends or receives (the larger) / bandwidth"
    if terms.lines is not None:
        exchange = (
            "the exchange of the slowest peer: its bodies over its own line, or one over a slower edge, half a round "
            "trip and TCP's slow start (edges that were not measured: the slower end's rate, the mean round trip)"
        )
    if terms.overlap:
        return f"A round takes the longer of training and latency + {exchange}."
    return f"A round takes training + latency + {exchange}."


def _together(topology: str, every: list[Mapping[str, Any]]) -> str:
    """One name for a graph with several options: `--fresh-neighbors 2/3/4`."""
    return _label(topology, every[0], "/".join(str(number) for options in every for number in options.values()))


def _print_command(console: Console, ranked: list[Ranked], more: list[str]) -> None:
    first = best(ranked)
    console.print("Fastest:" if ranked[0].doubly_stochastic else "Fastest that keeps the average:")
    # Not wrapped, so that it can be copied whole.
    words = " ".join([f"dpeer cluster --size {first.size} {arguments(first.topology, first.options)}", *more])
    console.print(f"  {words}", markup=False, soft_wrap=True)
