"""Formatting of a kept model's figures (names, order, values, 95 % intervals), and of the costs of privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpeer.results.json_fields import number
from dpeer.results.summaries import PeerSummary
from dpeer.results.units import decimals

NAMES = {
    "accuracy": "accuracy",
    "auroc": "AUROC",
    "balanced_accuracy": "balanced accuracy",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "f1": "F1",
    "brier": "Brier score",
    "ece": "calibration error",
    "mae": "MAE",
    "rmse": "RMSE",
    "r2": "R2",
}
"""In the order in which they are shown."""


def called(name: str) -> str:
    """The display name of a figure; a user's own one keeps its name."""
    return NAMES.get(name, name.replace("_", " "))


def in_order(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The figures by name, the known ones first."""
    known = {name: figures[name] for name in NAMES if name in figures}
    return known | dict(figures)


def interval(figure: Mapping[str, Any]) -> str:
    """The ends of an interval: "0.81 to 0.97"; a dash without one."""
    low, high = figure.get("low"), figure.get("high")
    return "-" if low is None or high is None else f"{decimals(low)} to {decimals(high)}"


def value(figure: Mapping[str, Any]) -> str:
    """The value; "undefined" where the rows do not define it."""
    return "undefined" if figure.get("value") is None else decimals(figure["value"])


def all_metrics(peer: PeerSummary) -> dict[str, float | None]:
    """All metrics of a peer's kept model by name, those of the task first."""
    own = dict(peer.metrics or {})
    return own | {name: found for name, found in (peer.measured or {}).items() if name not in own}


def metrics_by_rank(peers: Sequence[PeerSummary | None]) -> dict[str, list[float | None]]:
    """Every metric of any peer by name, a number or None for each peer."""
    found = [{} if peer is None else all_metrics(peer) for peer in peers]
    names = dict.fromkeys(name for one in found for name in one)
    return {name: [one.get(name) for one in found] for name in names}


def in_words(metrics: Mapping[str, float | None]) -> str:
    """Metrics in a line: "balanced accuracy 0.8123, AUROC 0.9012"."""
    return ", ".join(f"{called(name)} {decimals(found)}" for name, found in metrics.items() if found is not None)


def cost(privacy: Mapping[str, Any]) -> str:
    """The costs of releases (`Learner.privacy`) in few words.

    An epsilon that is infinite, or None as JSON has it, is no bound at all.
    """
    return f"epsilon {_bound(privacy['epsilon'])}"


def _bound(value: float | None) -> str:
    return "unbounded" if value is None or not math.isfinite(value) else f"{value:.4g}"


def largest(spent: Sequence[Mapping[str, Any]]) -> float | None:
    """The largest epsilon in peers' files, of at least one entry; None where one has no bound."""
    values = [number(one.get("epsilon")) for one in spent]
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def largest_cost(spent: Sequence[Mapping[str, Any]]) -> str:
    """The same as a table's cell."""
    return _bound(largest(spent))


def privacy_line(spent: Mapping[str, Any]) -> str:
    """The costs of a run's releases as a line: the protected unit, the adversary, epsilon and delta."""
    line = f"privacy of {spent['guarantee']}: {cost(spent)} at delta {spent['delta']:g}"
    if spent.get("mode") == "sample":
        line += f" after {spent['steps']:,} steps"
    else:
        line += f" after {spent['releases']} releases"
    return line
