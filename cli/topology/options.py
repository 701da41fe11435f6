"""The options of the commands of `dpeer topology`: names, sizes and a graph's details."""

from __future__ import annotations

from typing import Any

import click

from dpeer.cli.click_from_setting import F, stated
from dpeer.exceptions import ConfigurationError
from dpeer.topology import TOPOLOGIES, AnyTopology, build, size_of
from dpeer.topology.settings import GraphSettings, fresh_topology

DEFAULT_SIZE = 8

SLOW = 64


def grid_shape(text: str) -> tuple[int, int]:
    """Parse rows and columns, such as 2x4."""
    rows, _, columns = text.lower().partition("x")
    if not (_is_number(rows) and _is_number(columns)):
        raise ConfigurationError(f"--grid-shape {text!r}: write ROWSxCOLUMNS, for example 2x4")
    return int(rows), int(columns)


def one_size(text: str) -> int:
    """Parse one number of peers."""
    if not _is_number(text):
        raise ConfigurationError(f"--size {text!r}: write one whole number, for example 8")
    return int(text)


def sizes(text: str) -> list[int]:
    """Parse numbers of peers, such as 8,16."""
    parts = [part.strip() for part in text.split(",")]
    if not all(map(_is_number, parts)):
        raise ConfigurationError(f"--size {text!r}: write whole numbers, for example 8 or 8,16")
    return [int(part) for part in parts]


def names(text: str) -> list[str]:
    """Parse names, such as ring,full; `build` refuses those that do not exist."""
    return [part.strip() for part in text.split(",")]


NAMES = f"{', '.join(TOPOLOGIES)}, file:PATH, FILE.py:FUNCTION"

topology_option = click.option("--topology", "name", default=None, help=f"{NAMES}.  [default: ring]")
topologies_option = click.option(
    "--topology", "asked", type=names, metavar="NAME[,NAME...]", help=f"One or more of {NAMES}.  [default: ring]"
)
size_option = click.option(
    "--size", type=one_size, metavar="N", help=f"Number of peers.  [default: {DEFAULT_SIZE}, or that of file:PATH]"
)
sizes_option = click.option(
    "--size", type=sizes, metavar="N[,N...]",
    help=f"One or more numbers of peers.  [default: {DEFAULT_SIZE}, or that of file:PATH]",
)  # fmt: skip


def graph_options(command: F) -> F:
    """The options that all commands take for a graph's details, as they are stated among the settings."""
    command = stated(GraphSettings, "degree", "rewire", "edge_probability", "fresh_neighbors", "graph_seed")(command)
    command = stated(GraphSettings, "grid_shape", type=grid_shape, metavar="RxC")(command)
    return stated(GraphSettings, "weights")(command)


def build_one(name: str | None, size: int | None, options: dict[str, Any]) -> AnyTopology:
    """The topology of a name, a size and a graph's details.

    Raises:
        ConfigurationError: No such topology exists.
    """
    fresh = options.pop("fresh_neighbors")
    if fresh is not None:
        name, options["fresh_neighbors"] = fresh_topology(fresh, name)
    return _build("ring" if name is None else name, size, options)


def build_all(asked: list[str] | None, peers: list[int] | None, options: dict[str, Any]) -> list[AnyTopology]:
    """Every topology of these names in every size; `--fresh-neighbors` adds one.

    Everything is built before anything is analysed: a wrong name or size is an error at once.

    Raises:
        ConfigurationError: One of them does not exist.
    """
    fresh = options.pop("fresh_neighbors")
    wanted = asked or ([] if fresh else ["ring"])
    if fresh is not None:
        name, options["fresh_neighbors"] = fresh_topology(fresh, None)
        wanted = [*wanted, name] if name not in wanted else wanted
    every: list[int | None] = [None] if peers is None else [*peers]
    return [_build(name, size, options) for name in wanted for size in every]


def _build(name: str, size: int | None, options: dict[str, Any]) -> AnyTopology:
    if size is None:
        size = size_of(name) if name.startswith("file:") else DEFAULT_SIZE
    if options.get("weights") == "fastest" and size > SLOW:
        click.echo(f"solving for the fastest weights of {size} peers, which may take minutes", err=True)
    return build(name, size, **options)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
