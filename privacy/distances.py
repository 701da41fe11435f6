"""Epsilon between pairs of peers, by distance in the graph, from `dpeer.privacy.pairwise_leakage`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from dpeer.privacy import accounting
from dpeer.privacy.accounting import Accountant
from dpeer.privacy.pairwise_leakage import Views
from dpeer.privacy.planning import finite

Row = dict[str, Any]

_MEASURED = ("eps_guaranteed", "eps_openloop", "mu2_openloop")


def pairs(found: Views, delta: float, accountant: Accountant) -> list[Row]:
    """A row for each source and observer, in plain JSON values; what is infinite is None.

    Args:
        found: What each peer can learn of each other.
        delta: Of the epsilons.
        accountant: What computes them.
    """

    @cache
    def epsilon(mu2: float) -> float:
        return accounting.epsilon(1.0 / math.sqrt(mu2), 1, delta, accountant) if mu2 else 0.0

    rows = []
    ranks = range(len(found.distance))
    for source, observer in ((source, observer) for source in ranks for observer in ranks if source != observer):
        distance = float(found.distance[source, observer])
        # Equal by symmetry up to rounding: rounded alike, they are accounted for once.
        openloop = float(f"{found.mu2_openloop[source, observer]:.12g}")
        rows.append({
            "source": source,
            "observer": observer,
            "distance": round(distance) if math.isfinite(distance) else None,
            "eps_guaranteed": finite(epsilon(float(found.mu2_guaranteed[source, observer]))),
            "eps_openloop": finite(epsilon(openloop)),
            "mu2_openloop": openloop,
        })  # fmt: skip
    return rows


def by_distance(rows: Sequence[Row]) -> list[Row]:
    """The means of such rows at each distance, the nearest first, and how many pairs are at it."""
    grouped: dict[int | None, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["distance"], []).append(row)
    ordered = sorted(grouped, key=lambda distance: math.inf if distance is None else distance)
    return [
        {
            "distance": distance,
            "pairs": len(grouped[distance]),
            **{key: _mean([row[key] for row in grouped[distance]]) for key in _MEASURED},
        }
        for distance in ordered
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(values) if len(known) == len(values) else None
