"""`dpeer topology plot`: graphs, their spectra and how fast they agree, in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpeer.cli.topology.options import build_all, graph_options, size_option, topologies_option
from dpeer.exceptions import ConfigurationError, OutputError
from dpeer.optional_libraries import check_libraries
from dpeer.topology import AnyTopology

GRAPHS_LIMIT = 12
"""The most graphs in one picture: more lines cannot be distinguished."""

SIZE_LIMIT = 1000
"""The largest size that is drawn: beyond, dots merge and eigenvalues take minutes."""


@click.command(short_help="Draw graphs and how fast they agree.")
@topologies_option
@size_option
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("topology.png"), metavar="FILE", show_default=True,
    help="Picture to write, .png or .svg.",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(1, 100_000), metavar="N",
    help="Rounds of gossip to show.  [default: as most of the graphs need]",
)  # fmt: skip
@graph_options
def plot(asked: list[str] | None, size: int | None, out: Path, rounds: int | None, **options: Any) -> None:
    """Draw graphs, their spectra and how fast they agree, by rounds and by messages."""
    _check_asked(asked, size)
    _check_path(out)
    check_libraries("dpeer topology plot", "plot", matplotlib="matplotlib")
    # The same name twice would be two lines on top of each other.
    graphs = build_all(None if asked is None else list(dict.fromkeys(asked)), None if size is None else [size], options)
    _check_built(graphs)
    from dpeer.report.topology_plot import measure, picture  # needs matplotlib, an optional library

    measured = measure(graphs, rounds)
    image = picture(measured, out.suffix.lower().removeprefix("."))
    try:
        out.write_bytes(image)
    except OSError as error:
        raise OutputError(f"--out {str(out)!r} cannot be written: {error.strerror}") from error
    many, theirs = ("1 graph", "its spectrum") if len(graphs) == 1 else (f"{len(graphs)} graphs", "their spectra")
    click.echo(f"{out}: {many} of {graphs[0].size} peers, {theirs} and {measured.rounds} rounds of gossip")


def _check_asked(asked: list[str] | None, size: int | None) -> None:
    """Refuse too many or too large graphs, before any is built: building one of very many peers takes long."""
    if len(asked or ()) > GRAPHS_LIMIT:
        raise ConfigurationError(f"--topology: {len(asked or ())} graphs; a picture shows at most {GRAPHS_LIMIT}")
    if (size or 0) > SIZE_LIMIT:
        raise ConfigurationError(
            f"--size {size}: pictures are drawn of at most {SIZE_LIMIT} peers; "
            "`dpeer topology spectral-gap` takes a million"
        )


def _check_built(graphs: list[AnyTopology]) -> None:
    """Refuse too many or too large graphs, or of different sizes, also those from files and --fresh-neighbors."""
    _check_asked([graph.name for graph in graphs], max(graph.size for graph in graphs))
    other = next((graph for graph in graphs if graph.size != graphs[0].size), None)
    if other is not None:
        raise ConfigurationError(
            f"{graphs[0].name} has {graphs[0].size} peers and {other.name} {other.size}: "
            "a picture shows graphs of one size, give --size"
        )


def _check_path(out: Path) -> None:
    if out.suffix.lower() not in (".png", ".svg"):
        raise ConfigurationError(f"--out {str(out)!r}: name a file that ends in .png or .svg")
    if not out.parent.is_dir():
        raise OutputError(f"--out {str(out)!r}: no such folder: {str(out.parent)!r}")
