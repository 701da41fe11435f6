"""`dpeer evaluate`: metrics of a trained model on labelled data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpeer.cli.predict import input_option, run_option, tokenizer_option
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
    table = Table()
    for name, side in (("figure", "left"), ("value", "right"), ("95 % interval", "left")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for name, figure in in_order(figures["values"]).items():
        table.add_row(called(name), value(figure), interval(figure))
    console.print(table)
    classes = figures.get("classes", ())
    if len(classes) > 2:
        _by_class(console, classes[:_CLASSES])
    if 0 < len(classes) <= _CLASSES:
        _confusion(console, [one["class"] for one in classes], figures["confusion"])
    elif classes:
        console.print(f"the first {_CLASSES} of {len(classes)} classes; --json has all", highlight=False)


def _by_class(console: Console, classes: list[Mapping[str, Any]]) -> None:
    table = Table()
    table.add_column("class")
    table.add_column("rows", justify="right")
    names = ("sensitivity", "specificity", "f1", "auroc")
    for name in names:
        table.add_column(called(name), justify="right")
    for one in classes:
        table.add_row(escape(one["class"]), str(one["rows"]), *(value(one[name]) for name in names))
    console.print(table)


def _confusion(console: Console, names: list[str], counts: list[list[int]]) -> None:
    console.print("rows by true class (down) and predicted class (across):", highlight=False)
    table = Table()
    table.add_column("")
    for name in names:
        table.add_column(escape(name), justify="right")
    for name, row in zip(names, counts, strict=True):
        table.add_row(escape(name), *map(str, row))
    console.print(table)
