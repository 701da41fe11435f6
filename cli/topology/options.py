"""The options of the commands of `dpeer topology`: names, sizes and a graph's details."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dpeer.cli.click_from_setting import F, stated
from dpeer.exceptions import ConfigurationError
from dpeer.sections import names
from dpeer.topology import FORMS, TOPOLOGIES, Topology, build, size_of, split_names
from dpeer.topology.declared import DECLARED
from dpeer.topology.settings import GraphSettings

DEFAULT_SIZE = 8


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


NAMES = f"{', '.join(FORMS[name].words if name in FORMS else name for name in TOPOLOGIES)}, file:PATH, FILE.py:FUNCTION"

topology_option = click.option("--topology", "name", default=None, help=f"{NAMES}.  [default: ring]")
topologies_option = click.option(
    "--topology", "asked", type=split_names, metavar="NAME[,NAME...]", help=f"One or more of {NAMES}.  [default: ring]"
)
size_option = click.option(
    "--size", type=one_size, metavar="N", help=f"Number of peers.  [default: {DEFAULT_SIZE}, or that of file:PATH]"
)
sizes_option = click.option(
    "--size", type=sizes, metavar="N[,N...]",
    help=f"One or more numbers of peers.  [default: {DEFAULT_SIZE}, or that of file:PATH]",
)  # fmt: skip


def graph_options(command: F) -> F:
    """The options that all commands take for a graph's details; None where an option is not given."""
    command = stated(GraphSettings, "weights", "graph_seed", default=None)(command)
    return click.option(
        "--federation", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
        help="Federation file whose graph and weights are taken; options win.",
    )(command)  # fmt: skip


def build_all(asked: list[str] | None, peers: list[int] | None, options: Mapping[str, Any]) -> list[Topology]:
    """Every topology of these names in every size.

    Everything is built before anything is analysed: a wrong name or size is an error at once.

    Args:
        asked: Names of graphs; None for that of the federation file, or a ring.
        peers: Numbers of peers; None for that of the federation file, or of a graph's own file.
        options: The values of `graph_options`.

    Raises:
        ConfigurationError: One of them does not exist.
    """
    given = {name: value for name, value in options.items() if value is not None and name != "federation"}
    details = {}
    if options["federation"] is not None:
        # The file has the numbers of declared weights.
        flags = {"weights": given.pop("weights")} if given.get("weights") == DECLARED else {}
        details = _of_file(options["federation"], flags)
    details |= given
    first, size = details.pop("topology", "ring"), details.pop("size", None)
    every = [size] if peers is None else peers
    return [_build(name, one, details) for name in asked or [first] for one in every]


def build_one(name: str | None, size: int | None, options: Mapping[str, Any]) -> Topology:
    """The topology of a name, a size and a graph's details; arguments as `build_all`.

    Raises:
        ConfigurationError: No such topology exists.
    """
    (graph,) = build_all(None if name is None else [name], None if size is None else [size], options)
    return graph


def _of_file(path: Path, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the graph of a federation file, with these flags."""
    from dpeer.federation.config import load  # torch, which takes a second

    settings = load(path, flags)
    return {name: getattr(settings, name) for name in names(GraphSettings)}


def _build(name: str, size: int | None, options: dict[str, Any]) -> Topology:
    if size is None:
        size = size_of(name) if name.startswith("file:") else DEFAULT_SIZE
    return build(name, size, **options)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
