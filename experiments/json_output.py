"""Results as JSON: the figures of a comparison's tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from dpeer.experiments.cells import Condition
from dpeer.experiments.experiment import Experiment
from dpeer.experiments.outcomes import Cost, Measure, Result
from dpeer.experiments.round_tables import at_epsilon, at_round, gap_of
from dpeer.experiments.row_statistics import Rows, figures, majority, others
from dpeer.experiments.tables import MEASURES
from dpeer.results.costs import largest
from dpeer.results.files import finite


def as_json(experiment: Experiment, found: Sequence[tuple[Condition, Rows]]) -> dict[str, Any]:
    """All figures of a comparison; null is what is not known or not finite.

    Args:
        experiment: What was compared.
        found: For each table what its runs have in common, and their results.
    """
    e = experiment
    tables = [
        {
            "condition": dict(condition.values),
            "target": e.target_of(condition),
            "majority": majority(next(iter(rows.values()))),
            "rows": {row: _row(row, rows, e, e.target_of(condition)) for row in rows},
        }
        for condition, rows in found
    ]
    plain: dict[str, Any] = finite({
        "seeds": list(e.seeds), "rounds": e.base["rounds"], "last": e.last, "baseline": e.baseline,
        "reference": e.reference, "target": e.target, "tables": tables,
    })  # fmt: skip
    return plain


def _row(row: str, rows: Rows, e: Experiment, target: float | None) -> dict[str, Any]:
    results = rows[row]
    spent = [one for result in results for one in result.spent]
    return {
        **{measure: _measured(row, rows, measure, e, target) for measure in MEASURES},
        "accuracy": _measured(row, rows, "accuracy", e, None),  # a target is reached in rounds
        "metrics": others(results, e.last),
        "diverged_seeds": sum(result.diverged for result in results),
        "bytes_sent_a_peer": fmean(result.sent for result in results),
        "samples": _mean([result.samples() for result in results]),
        **(largest(spent) if spent else {}),
    }


def _measured(row: str, rows: Rows, measure: Measure, e: Experiment, target: float | None) -> dict[str, Any]:
    found = figures(row, rows, measure, e.baseline, e.reference, e.last)
    difference = found.difference
    values: dict[str, Any] = {
        "mean": found.mean,
        "worst_peer": found.worst,
        "below_baseline": found.below,
        "difference": None if difference is None else difference.mean,
        "difference_half": None if difference is None else difference.half,
    }
    results, gap = rows[row], gap_of(rows[row], measure, e.last)
    if gap is not None:
        values |= {
            "training_accuracy": gap.training, "generalization_gap": gap.gap.mean,
            "generalization_gap_half": gap.gap.half,
        }  # fmt: skip
    if measure != "accuracy":  # a kept model is of one round
        if e.at_round:
            values["at_round"] = {str(number): at_round(results, measure, number) for number in e.at_round}
        if e.at_epsilon:
            within = {f"{budget:g}": at_epsilon(results, measure, budget) for budget in e.at_epsilon}
            values["at_epsilon"] = {name: None if one is None else asdict(one) for name, one in within.items()}
    return values if target is None else values | {"to_target": _to_target(results, measure, target)}


def _to_target(results: Sequence[Result], measure: Measure, target: float) -> dict[str, Any]:
    costs: list[Cost] = [cost for result in results if (cost := result.reached(measure, target)) is not None]
    return {
        "seeds": len(costs),
        "rounds": _mean([cost.rounds for cost in costs]),
        "samples": _mean([cost.samples for cost in costs]),
        "busiest_peer_bytes": _mean([cost.busiest_bytes for cost in costs]),
    }


def _mean(counts: Sequence[int | None]) -> float | None:
    """The mean; None of nothing, and if a run of an older version did not count."""
    known = [count for count in counts if count is not None]
    return fmean(known) if known and len(known) == len(counts) else None
