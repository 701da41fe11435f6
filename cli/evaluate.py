"""`dpeer evaluate`: metrics of a trained model on labelled data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from dpeer.cli.predict import input_option, run_option, tokenizer_option
from dpeer.cli.tables import filled
from dpeer.federation.saved_models import load_model
from dpeer.results.figures import called, in_order, interval, value

_CLASSES = 12
"""Of more classes neither all rows nor a confusion matrix fit a screen."""


@click.command(short_help="Measure a trained model on labelled data.")
@run_option
@input_option(
    help="Labelled data: a table or .tsv of texts with the column that is predicted, a folder for each class, or .npz "
    "with targets."
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
    print_figures(Console(), figures)


def print_figures(console: Console, figures: Mapping[str, Any]) -> None:
    """Print figures with their intervals, by class, and the confusion matrix."""
    rows = figures["rows"]
    positive = f"; positive: {figures['positive']}" if "positive" in figures else ""
    console.print(f"{rows} {'row' if rows == 1 else 'rows'}{positive}", highlight=False, markup=False)
    found = [(called(name), value(figure), interval(figure)) for name, figure in in_order(figures["values"]).items()]
    console.print(filled(Table(), {"figure": "words", "value": "right", "95 % interval": "words"}, found))
    classes = figures.get("classes", ())
    if len(classes) > 2:
        names = ("sensitivity", "specificity", "f1", "auroc")
        columns = {"class": "words", "rows": "right"} | {called(name): "right" for name in names}
        each = [(one["class"], one["rows"], *(value(one[name]) for name in names)) for one in classes[:_CLASSES]]
        console.print(filled(Table(), columns, each))
    if 0 < len(classes) <= _CLASSES:
        true = [one["class"] for one in classes]
        counts = [(name, *row) for name, row in zip(true, figures["confusion"], strict=True)]
        console.print("rows by true class (down) and predicted class (across):", highlight=False)
        console.print(filled(Table(), {"": "words"} | dict.fromkeys(true, "right"), counts))
    elif classes:
        console.print(f"the first {_CLASSES} of {len(classes)} classes; --json has all", highlight=False)
