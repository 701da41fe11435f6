"""Metrics besides accuracy: a task's own ones by rank, the common ones in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from dpeer.results.figures import NAMES, called, in_words
from dpeer.results.units import decimals

_COLUMNS = 5
"""More do not fit 80 columns; summary.json has all."""

_USUAL = ("balanced_accuracy", "auroc", "sensitivity", "specificity")
_VALUES = ("mae", "rmse", "r2")


def show(console: Console, summary: Mapping[str, Any], ranks: Sequence[int]) -> None:
    """Print the metrics of these ranks, and their means over all peers.

    Args:
        console: Where they are printed.
        summary: The run's.
        ranks: Those that the table before it shows.
    """
    by_rank: Mapping[str, Sequence[float | None]] = summary.get("metrics") or {}
    mean: Mapping[str, float | None] = summary.get("metrics_mean") or {}
    own = [name for name in by_rank if name not in NAMES or name in _VALUES]
    if own:
        _by_rank(console, own, by_rank, mean, ranks)
    if words := in_words({name: mean[name] for name in _USUAL if name in mean}):
        console.print(f"mean over the peers: {words}", highlight=False, markup=False, soft_wrap=True)


def _by_rank(
    console: Console,
    names: Sequence[str],
    by_rank: Mapping[str, Sequence[float | None]],
    mean: Mapping[str, float | None],
    ranks: Sequence[int],
) -> None:
    shown = names[:_COLUMNS]
    table = Table()
    for name in ("rank", *map(called, shown)):
        table.add_column(name, justify="right")
    for rank in ranks:
        table.add_row(str(rank), *(decimals(by_rank[name][rank]) for name in shown))
    table.add_section()
    table.add_row("mean", *(decimals(mean.get(name)) for name in shown))
    console.print(table)
    if len(names) > len(shown):
        more = ", ".join(names[_COLUMNS:])
        console.print(f"more metrics in summary.json: {more}", highlight=False, markup=False, soft_wrap=True)
