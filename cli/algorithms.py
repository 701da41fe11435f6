"""`dpeer algorithms`: the training algorithms with the cost of a round, and one or a preset in detail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpeer.cli.tables import filled, json_option, plain_table, print_table
from dpeer.exceptions import UnknownName
from dpeer.federation.presets import PRESETS

if TYPE_CHECKING:
    from dpeer.training import Algorithm


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
def algorithms(names: tuple[str, ...], as_json: bool) -> None:
    """List the algorithms, what leaves the peer and what a round costs; or describe those and the presets named.

    Messages are those to each neighbor in a round, gradients those of each training sample. NAME is an algorithm or a
    preset. --json lists the algorithms alone.
    """
    from dpeer.training import ALGORITHMS  # torch

    if wrong := next((name for name in names if name not in {*ALGORITHMS, *PRESETS}), None):
        raise UnknownName("algorithm or preset", wrong, [*ALGORITHMS, *PRESETS])
    listed = [_described(algorithm()) for algorithm in ALGORITHMS.values()]
    if as_json:
        click.echo(json.dumps(listed, allow_nan=False))
        return
    if names:
        blocks = {entry["name"]: (entry["name"], entry["summary"], entry["paper"], *_own(entry)) for entry in listed}
        blocks |= {name: (f"--preset {name}", preset.words, preset.remark) for name, preset in PRESETS.items()}
        _print_blocks([blocks[name] for name in names])
        return
    console = Console(highlight=False)
    _print_costs(listed)
    console.print("\nGradients: computed for each sample in a round, at the algorithm's defaults.")
    console.print("Messages: those to each neighbor in a round, whatever their size.")
    console.print(f"Presets, a paper's values by --preset NAME: {', '.join(PRESETS)}.")
    console.print("`dpeer algorithms NAME` describes an algorithm, with its paper and its own options, or a preset.")


def _described(algorithm: Algorithm) -> dict[str, Any]:
    from dpeer.training import Hyperparameters
    from dpeer.training.algorithms.options import about_options

    named = {name: one.words for name, one in about_options(type(algorithm)).items()}
    return {
        "name": algorithm.name,
        "summary": algorithm.summary,
        "paper": algorithm.paper,
        "leaves": algorithm.leaves,
        "messages": 0 if algorithm.shares == "nothing" else 1,
        "gradients": algorithm.gradients(Hyperparameters(**algorithm.defaults)),
        "defaults": dict(algorithm.defaults),
        "options": list(algorithm.uses),
        "own": {name: {"default": getattr(algorithm.options, name), "text": text} for name, text in named.items()},
    }


def _print_costs(listed: list[dict[str, Any]]) -> None:
    columns = {"algorithm": "left", "gradients": "right", "messages": "right", "what leaves the peer": "words"}
    rows = [(entry["name"], f"{entry['gradients']:g}", entry["messages"], entry["leaves"]) for entry in listed]
    print_table(filled(plain_table(), columns, rows))


def _own(entry: Mapping[str, Any]) -> list[str]:
    """A line on the options that are an algorithm's own."""
    own = ", ".join(f"{name}={about['default']} ({about['text']})" for name, about in entry["own"].items())
    return [f"--algorithm-option {own}"] if own else []


def _print_blocks(entries: list[tuple[str, str, str]]) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, *paragraphs in entries:
        grid.add_row(name, Text("\n".join(paragraphs)))
    print_table(grid)
