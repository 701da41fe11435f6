"""The table that a run of all peers ends with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from dpeer.cli import metric_table
from dpeer.results.costs import privacy_line
from dpeer.results.units import decimals, size

_MANY, _WORST = 40, 10
"""With more peers than that, only so many are printed: those that did worst."""


def show(console: Console, summary: Mapping[str, Any], out: Path, baseline: Mapping[str, Any] | None) -> None:
    """Print how the peers did, beside a baseline if there is one, and where the files are."""
    if all(rounds is None for rounds in summary["completed_rounds"]):
        return  # nobody lived to leave a result: there is nothing to show
    # A task may have no accuracy (a regression, say); a loss every task has.
    measure = "accuracy" if summary["accuracy_mean"] is not None else "test_loss"
    best = (summary.get("settings") or {}).get("keep") == "best"
    which = "best of" if best else "after"
    by = " by validation loss" if best else ""
    console.print(
        f"{summary['algorithm']} {which} {summary['rounds']} rounds{by}: {measure.replace('_', ' ')} on each peer's "
        "own test data",
        highlight=False,
        soft_wrap=True,
    )
    table = Table()
    table.add_column("rank", justify="right")
    table.add_column(measure.replace("_", " "), justify="right")
    if best:
        table.add_column("round", justify="right")
    if baseline:
        table.add_column(f"{baseline['algorithm']}", justify="right")
        table.add_column("gain" if measure == "accuracy" else "difference", justify="right")
    values = summary[measure]
    others = baseline[measure] if baseline else [None] * len(values)
    shown = _shown(values, higher_is_better=measure == "accuracy")
    for rank in shown:
        value, other = values[rank], others[rank]
        kept = summary["kept_round"][rank]
        rounds = ("-" if kept is None else str(kept + 1),) if best else ()
        table.add_row(str(rank), decimals(value), *rounds, *(_against(value, other) if baseline else ()))
    if len(values) > _MANY:
        table.add_row("...", f"{len(values) - _WORST} better", *("",) * best, *(("", "") if baseline else ()))
    table.add_section()
    mean, other = _mean(values), _mean(others)
    table.add_row("mean", decimals(mean), *("",) * best, *(_against(mean, other) if baseline else ()))
    console.print(table)
    metric_table.show(console, summary, shown)
    for fact in _facts(summary, out):
        console.print(fact, highlight=False, markup=False, soft_wrap=True)


def _shown(values: Sequence[float | None], *, higher_is_better: bool) -> list[int]:
    """The ranks to print: all, or where they are many those that did worst."""
    ranks = list(range(len(values)))
    if len(values) <= _MANY:
        return ranks
    known = [-math.inf if value is None else value if higher_is_better else -value for value in values]
    return sorted(sorted(ranks, key=lambda rank: known[rank])[:_WORST])


def _facts(summary: Mapping[str, Any], out: Path) -> list[str]:
    facts = [
        f"{summary['body_parameters']:,} parameters gossiped, {summary['head_parameters']:,} kept at home",
        f"{size(summary['bytes_sent'])} sent in all, {summary['wall_seconds']:.1f} s",
    ]
    distance = summary["consensus_distance"]
    if distance is not None and math.isfinite(distance):
        facts.append(f"consensus distance {distance:.4f}")
    if summary.get("privacy") is not None:
        facts.append(privacy_line(summary["privacy"]))
    for rank, lost in summary["lost"].items():
        facts.append(f"rank {rank} lost " + ", ".join(f"rank {other} ({why})" for other, why in lost.items()))
    facts.append(f"summary {out / 'summary.json'}; per peer {out}/rank-R/: metrics.jsonl, model.safetensors, log.jsonl")
    return facts


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _against(value: float | None, other: float | None) -> Sequence[str]:
    gain = None if value is None or other is None else value - other
    return (decimals(other), "-" if gain is None else f"{gain:+.4f}")
