"""The table of what the peers were measured by besides accuracy and loss: a task's own metrics, AUROC, ..."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from dpeer.report.groups import Group
from dpeer.report.table import NONE
from dpeer.results.figures import all_metrics, called, in_order
from dpeer.results.runs import Peer, Run

Table = tuple[list[str], list[list[str]]]
"""The headings, and a row of texts for each group."""


def metrics_table(groups: Sequence[Group]) -> Table | None:
    """Every metric's mean over the peers, a row for each group in their order; None where there is none."""
    means = [[_means(run) for run in group.runs] for group in groups]
    names = [*in_order(dict.fromkeys(name for group in means for run in group for name in run))]
    names = [name for name in names if name != "accuracy"]  # the table of results has it
    if not names:
        return None
    return [called(name) for name in names], [[_cell(group, name) for name in names] for group in means]


def _means(run: Run) -> dict[str, float]:
    """By name, the mean over the peers that have such a metric."""
    found: dict[str, list[float]] = {}
    for peer in run.peers.values():
        for name, value in _last(peer).items():
            if value is not None:
                found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()}


def _last(peer: Peer) -> dict[str, float | None]:
    """A peer's metrics at the end; those of its last evaluated round where it has not ended."""
    if peer.summary is not None:
        return all_metrics(peer.summary)
    lines = (line.metrics for line in reversed(list(peer.entries.values())))
    return dict(next((metrics for metrics in lines if metrics is not None), {}))


def _cell(runs: Sequence[dict[str, float]], name: str) -> str:
    """The mean over seeds and, of several, their standard deviation."""
    values = [run[name] for run in runs if name in run]
    if not values:
        return NONE
    return f"{fmean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")
