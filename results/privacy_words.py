"""Privacy costs in words: the epsilon of one peer as a cell or line, and the largest of several peers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpeer.results.json_fields import number


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
