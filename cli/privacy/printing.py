"""Printing guarantees, for the commands of `dpeer privacy`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from dpeer.cli.topology.options import print_table
from dpeer.privacy.client_level import Guarantee
from dpeer.privacy.plan import ClientPlan

MEANT = {"exact": "closed form", "pld": "privacy loss distributions", "rdp": "Renyi, an upper bound"}
"""What each accountant is."""


def which_is_which(numbers: Mapping[str, float | None], guarantee: Guarantee) -> str:
    """The sentence that explains the two epsilons of aggregate mode."""
    return (
        f"Epsilon is {short(numbers['epsilon_aggregate'])} only for {outsider(guarantee)}, and "
        f"{short(numbers['epsilon_neighbor'])} for every neighbor, which sees each message by itself."
    )


def outsider(guarantee: Guarantee) -> str:
    """The adversary that aggregate mode's epsilon is about."""
    return guarantee.words_against("aggregate").split("against ")[1].rpartition(",")[0]


def protected(guarantee: Guarantee) -> str:
    """Unit, adversary and adjacency, as a line."""
    return f"Protected: {guarantee.words}."


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


def print_facts(rows: Iterable[tuple[str, str, str]]) -> None:
    """Print names, values and what they mean."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    print_table(table)


def print_lines(lines: Iterable[str]) -> None:
    """Print sentences as they are, broken where the terminal ends."""
    console = Console(highlight=False)
    for line in lines:
        console.print(line, markup=False)


def facts(guarantee: Guarantee, plan: ClientPlan) -> list[tuple[str, str, str]]:
    """The values that the numbers were computed from."""
    return [
        ("delta", f"{guarantee.delta:g}", "probability that epsilon does not hold"),
        ("rounds", f"{plan.planned:,}", "one release of every peer in each"),
        ("accountant", plan.accountant, MEANT[plan.accountant]),
    ]
