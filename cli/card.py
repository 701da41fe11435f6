"""`dpeer card`: a page about a trained model."""

from __future__ import annotations

from pathlib import Path

import click

from dpeer.cli.model_options import run_option
from dpeer.federation.load_model import model_folder, read_card
from dpeer.optional_libraries import check_libraries
from dpeer.results.files import CARD_PAGE


@click.command(short_help="Write a page about a trained model.")
@run_option
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="The page.  [default: DIR/rank-R/model.html]"
)
def card(run: Path, out: Path | None) -> None:
    """Write a page about the model that a peer has ended with, from model.json beside it.

    What it needs and how it was prepared, how well it does with 95 % intervals, with whom it was trained, and which
    privacy holds. The page needs no other file.

    \b
    Example:
      dpeer card --run dpeer-run/rank-0
    """  # noqa: D301 - \b is click's
    check_libraries("dpeer card", "plot", jinja2="Jinja2")
    folder = model_folder(run)
    content = read_card(folder)
    from dpeer.report.card import write_card  # needs Jinja2, an optional library

    page = folder / CARD_PAGE if out is None else out
    write_card(content, page)
    click.echo(f"{page}: open it in a browser")
