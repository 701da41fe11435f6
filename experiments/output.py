"""The figures of a comparison as CSV, a line a peer, and as JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from dpeer.experiments.cells import Condition
from dpeer.experiments.experiment import Experiment
from dpeer.experiments.outcomes import Measure, Result
from dpeer.experiments.statistics import Rows, at_epsilon, at_round, costs_of, figures, gap_of, majority, others
from dpeer.experiments.tables import MEASURES
from dpeer.results.costs import largest
from dpeer.results.files import finite

LATE = 10
"""The second figure of a peer is the mean over so many of the last rounds, unless the tables take another number."""


def csv_rows(rows: Rows, condition: Mapping[str, Any], seeds: Sequence[int], last: int = 1) -> list[dict[str, Any]]:
    """The figures that the tables are made of, a line for each peer.

    Args:
        rows: The results.
        condition: The settings in which the table differs from others.
        seeds: The repetitions.
        last: The mean over so many of the last rounds stands beside the accuracy of the last one.
    """
    late = last if last > 1 else LATE
    lines = []
    for name, results in rows.items():
        for seed, result in zip(seeds, results, strict=True):
            figures = {
                f"{measure}{suffix}": result.accuracies(measure, rounds)
                for measure in MEASURES
                for suffix, rounds in (("", 1), (f"_last_{late}", late))
            } | {"accuracy": result.accuracies("accuracy")}
            figures |= _training(result)
            for rank, peer in enumerate(result.peers):
                own = {figure: None if math.isnan(values[rank]) else values[rank] for figure, values in figures.items()}
                lines.append(
                    {
                        "row": name, **condition, "seed": seed, "rank": rank, **own,
                        "training_samples": peer.training_samples, "bytes_sent": peer.bytes_sent,
                    }
                )  # fmt: skip
    return lines


def csv_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """The lines as CSV, with a header."""
    file = io.StringIO()
    names = dict.fromkeys(name for line in lines for name in line)  # not every row measures the same
    writer = csv.DictWriter(file, fieldnames=list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def _training(result: Result) -> dict[str, list[float]]:
    """Every peer's training accuracy and generalization gap in the last round and of the kept model, where measured."""
    found: dict[str, list[float]] = {}
    measures: tuple[Measure, ...] = (*MEASURES, "accuracy")
    for measure in measures:
        if (training := result.training(measure)) is not None:
            ending = measure.removeprefix("accuracy")
            gaps = [one - test for one, test in zip(training, result.accuracies(measure), strict=True)]
            found |= {f"training_accuracy{ending}": training, f"generalization_gap{ending}": gaps}
    return found


def as_json(experiment: Experiment, found: Sequence[tuple[Condition, Rows]]) -> dict[str, Any]:
    """All figures of a comparison; null is a figure that is not known or not finite.

    Args:
        experiment: The comparison.
        found: For each table its condition and the results.
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
        "seeds": list(e.seeds), "rounds": e.base["rounds"], "last": e.plan.last, "baseline": e.baseline,
        "reference": e.reference, "target": e.plan.target, "tables": tables,
    })  # fmt: skip
    return plain


def _row(row: str, rows: Rows, e: Experiment, target: float | None) -> dict[str, Any]:
    results = rows[row]
    spent = [one for result in results for one in result.spent]
    return {
        **{measure: _measured(row, rows, measure, e, target) for measure in MEASURES},
        "accuracy": _measured(row, rows, "accuracy", e, None),  # a target is reached in rounds
        "metrics": others(results, e.plan.last),
        "diverged_seeds": sum(result.diverged for result in results),
        "bytes_sent_a_peer": fmean(result.sent for result in results),
        "samples": fmean(result.samples() for result in results),
        **(largest(spent) if spent else {}),
    }


def _measured(row: str, rows: Rows, measure: Measure, e: Experiment, target: float | None) -> dict[str, Any]:
    found = figures(row, rows, measure, e.baseline, e.reference, e.plan.last)
    difference = found.difference
    values: dict[str, Any] = {
        "mean": found.mean,
        "worst_peer": found.worst,
        "below_baseline": found.below,
        "difference": None if difference is None else difference.mean,
        "difference_half": None if difference is None else difference.half,
    }
    results, gap = rows[row], gap_of(rows[row], measure, e.plan.last)
    if gap is not None:
        values |= {
            "training_accuracy": gap.training, "generalization_gap": gap.gap.mean,
            "generalization_gap_half": gap.gap.half,
        }  # fmt: skip
    if measure != "accuracy":  # a kept model is of one round
        if e.plan.at_round:
            values["at_round"] = {str(number): at_round(results, measure, number) for number in e.plan.at_round}
        if e.plan.at_epsilon:
            within = {f"{budget:g}": at_epsilon(results, measure, budget) for budget in e.plan.at_epsilon}
            values["at_epsilon"] = {name: None if one is None else asdict(one) for name, one in within.items()}
    if target is not None:
        cost = costs_of(results, measure, target)
        values["to_target"] = {
            "seeds": 0 if cost is None else cost.seeds,
            "rounds": cost and cost.rounds,
            "samples": cost and cost.samples,
            "busiest_peer_bytes": cost and cost.busiest_bytes,
        }
    return values
