"""`dpeer evaluate`: metrics of a trained model on labelled data."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dpeer.cli.model_options import input_option, run_option, tokenizer_option
from dpeer.federation.load_model import load_model


@click.command(short_help="Measure a trained model on labelled data.")
@run_option
@input_option(
    "Labelled data: a table or .tsv of texts with the column that is predicted, a folder for each class, or .npz with "
    "targets."
)
@tokenizer_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def evaluate(run: Path, data: Path, tokenizer: Path | None, as_json: bool) -> None:
    """Measure the model that a peer has ended with, on labelled data, with 95 % intervals.

    \b
    Example:
      dpeer evaluate --run dpeer-run/rank-0 --input labelled.csv
    """  # noqa: D301 - \b is click's
    model = load_model(run, tokenizer=tokenizer)
    new = model.read(data, labels=True)
    for remark in new.remarks:
        click.echo(f"WARNING: {remark}", err=True)
    figures = model.evaluate(new)
    if as_json:
        click.echo(json.dumps(figures, indent=1))
        return
    from rich.console import Console

    from dpeer.cli.model_figures import show

    show(Console(), figures)
