"""Guarantees of both levels as tables and sentences."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import click
from rich.console import Console

from dpeer.cli.tables import plain_table, print_table
from dpeer.privacy import SampleGuarantee
from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.plan import ClientPlan, SamplePlan

Rows = list[tuple[str, str, str]]
"""Names, values and what they mean."""

MEANT = {"exact": "closed form", "pld": "privacy loss distributions", "rdp": "Renyi, an upper bound"}
"""What each accountant is."""

PERSONS = "A person with several records is protected less than one with a single record."


def print_result(
    as_json: bool, found: Mapping[str, Any], guarantee: Guarantee | SampleGuarantee, rows: Rows, lines: Iterable[str]
) -> None:
    """Print a command's result as JSON, else as what is protected, names with values, and sentences."""
    if as_json:
        click.echo(json.dumps(found, allow_nan=False))
        return
    print_lines([f"Protected: {guarantee.words}."])
    table = plain_table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    print_table(table)
    print_lines(lines)


def print_lines(lines: Iterable[str]) -> None:
    """Print sentences as they are, broken where the terminal ends."""
    console = Console(highlight=False)
    for line in lines:
        console.print(line, markup=False)


def epsilons(found: Mapping[str, float | None], guarantee: Guarantee, before: str = "", after: str = "") -> Rows:
    """The rows of epsilon at client level, in aggregate mode one for each adversary.

    Args:
        found: The values, by the keys of the JSON output.
        guarantee: Decides by its adversary which of them count.
        before: What stands before each adversary.
        after: What stands after a neighbor.
    """
    if guarantee.adversary == "neighbor":
        return [("epsilon", short(found["epsilon"]), f"{before}against a neighbor{after}")]
    return [
        ("epsilon_aggregate", short(found["epsilon_aggregate"]), f"{before}against the outsider alone"),
        ("epsilon_neighbor", short(found["epsilon_neighbor"]), f"{before}against a neighbor{after}"),
    ]


def which_is_which(numbers: Mapping[str, float | None], guarantee: Guarantee) -> str:
    """The sentence that explains the two epsilons of aggregate mode."""
    outsider = guarantee.words_against("aggregate").split("against ")[1].rpartition(",")[0]
    return (
        f"Epsilon is {short(numbers['epsilon_aggregate'])} only for {outsider}, and "
        f"{short(numbers['epsilon_neighbor'])} for every neighbor, which sees each message by itself."
    )


def facts(guarantee: Guarantee | SampleGuarantee, plan: ClientPlan | SamplePlan) -> Rows:
    """The values that the numbers were computed from."""
    delta = ("delta", f"{guarantee.delta:g}", "probability that epsilon does not hold")
    accountant = ("accountant", plan.accountant, MEANT[plan.accountant])
    if isinstance(guarantee, Guarantee):
        return [delta, ("rounds", f"{plan.planned:,}", "one release of every peer in each"), accountant]
    steps = f"{guarantee.steps:,} local steps in each"
    if guarantee.head_steps:
        steps = f"{guarantee.head_steps:,} local steps of the head and {guarantee.steps:,} of the body in each"
    return [
        ("sampling rate", f"{guarantee.sampling_rate:g}", "probability that a record is in a step's batch"),
        delta,
        ("rounds", f"{plan.planned:,}", steps),
        ("steps", f"{guarantee.compositions(plan.planned):,}", "each is charged"),
        accountant,
    ]


def short(value: float | None) -> str:
    """A number as a short text, of four significant digits or more."""
    if value is None:
        return "infinite"
    if value == 0.0:
        return "0"
    if 1000.0 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    if abs(value) < 1e-3 or abs(value) >= 1e7:
        return f"{value:.3e}"
    return f"{value:#.4g}".rstrip(".")


def upwards(value: float) -> str:
    """A number with five digits, rounded up: noise that is typed again must not be less."""
    step = 10.0 ** (math.floor(math.log10(value)) - 4)
    up = math.ceil(value / step * (1.0 - 1e-12)) * step
    return f"{up:.5g}" if up < 1e5 else f"{up:.0f}"
