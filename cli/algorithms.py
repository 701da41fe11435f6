"""`dpeer algorithms`: the training algorithms with the cost of a round, and one or a preset in detail."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpeer.cli.options import setting_options
from dpeer.cli.tables import json_option, plain_table, print_table
from dpeer.exceptions import UnknownName
from dpeer.federation.config import from_flags
from dpeer.federation.presets import PRESETS
from dpeer.federation.settings import Settings

if TYPE_CHECKING:
    from dpeer.training import Algorithm, Hyperparameters

EPOCHS = ("body_epochs", "head_epochs", "sam")
"""The settings that decide how many gradients a round takes."""


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@json_option
@setting_options("preset", *EPOCHS)
def algorithms(names: tuple[str, ...], as_json: bool, **flags: Any) -> None:
    """List the algorithms, what leaves the peer and what a round costs; or describe those and the presets named.

    Messages are those to each neighbor in a round, gradients those of each training sample. NAME is an algorithm or a
    preset. --json lists the algorithms alone.
    """
    # Only options of this command count: a listing does not depend on the current folder.
    settings = from_flags(flags)

    # torch is imported only now: mistakes above show at once
    from dpeer.training import ALGORITHMS, Hyperparameters

    if wrong := next((name for name in names if name not in {*ALGORITHMS, *PRESETS}), None):
        raise UnknownName("algorithm or preset", wrong, [*ALGORITHMS, *PRESETS])
    common = Hyperparameters(**{name: getattr(settings, name) for name in Hyperparameters.model_fields})
    given = settings.model_fields_set
    used = {
        name: common.model_copy(update={key: value for key, value in algorithm.defaults.items() if key not in given})
        for name, algorithm in ALGORITHMS.items()
    }
    made = [algorithm() for algorithm in ALGORITHMS.values()]
    listed = [_described(algorithm, used[algorithm.name]) for algorithm in made]
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
    console.print(_epochs(settings, used))
    console.print("Messages: those to each neighbor in a round, whatever their size.")
    console.print(f"Presets, a paper's values by --preset NAME: {', '.join(PRESETS)}.")
    console.print("`dpeer algorithms NAME` describes an algorithm, with its paper and its own options, or a preset.")


def _described(algorithm: Algorithm, h: Hyperparameters) -> dict[str, Any]:
    from dpeer.training.algorithms.options import about_options

    named = {name: one.words for name, one in about_options(type(algorithm)).items()}
    return {
        "name": algorithm.name,
        "summary": algorithm.summary,
        "paper": algorithm.paper,
        "leaves": algorithm.leaves,
        "messages": 0 if algorithm.shares == "nothing" else 1,
        "gradients": algorithm.gradients(h),
        "defaults": dict(algorithm.defaults),
        "options": list(algorithm.uses),
        "own": {name: {"default": getattr(algorithm.options, name), "text": text} for name, text in named.items()},
    }


def _print_costs(listed: list[dict[str, Any]]) -> None:
    table = plain_table()
    table.add_column("algorithm", no_wrap=True)
    table.add_column("gradients", justify="right", no_wrap=True)
    table.add_column("messages", justify="right", no_wrap=True)
    table.add_column("what leaves the peer")
    for entry in listed:
        numbers = f"{entry['gradients']:g}", str(entry["messages"])
        table.add_row(entry["name"], *numbers, Text(entry["leaves"]))
    print_table(table)


def _own(entry: Mapping[str, Any]) -> list[str]:
    """A line on the options that are an algorithm's own."""
    own = ", ".join(f"{name}={about['default']} ({about['text']})" for name, about in entry["own"].items())
    return [f"--algorithm-option {own}"] if own else []


def _epochs(settings: Settings, used: Mapping[str, Hyperparameters]) -> str:
    everyone = {name: getattr(settings, name) for name in EPOCHS}
    apart = ""
    for algorithm, h in used.items():
        own = {name: value for name, value in h if name in everyone and value != everyone[name]}
        apart += f"; {algorithm}'s own: {_values(own)}" if own else ""
    return (
        f"\nGradients: computed for each sample in a round, at {_values(everyone)}{apart}. "
        "What comes after the last round is not counted."
    )


def _print_blocks(entries: list[tuple[str, str, str]]) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for name, *paragraphs in entries:
        grid.add_row(name, Text("\n".join(paragraphs)))
    print_table(grid)


def _values(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key.replace('_', '-')} {value}" for key, value in values.items())
