"""The figures of a comparison as CSV, a line a peer, and as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from dpeer.experiments.cells import Condition
from dpeer.experiments.experiment import Experiment
from dpeer.experiments.outcomes import Measure
from dpeer.experiments.statistics import ResultsByRow, RowFigures, figures, majority, others
from dpeer.experiments.tables import MEASURES
from dpeer.results.files import finite
from dpeer.results.privacy_words import largest


def csv_rows(rows: ResultsByRow, condition: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The figures that the tables are made of, a line for each peer; None for a figure that is not known.

    Args:
        rows: The results.
        condition: The settings in which the table differs from others.
        seeds: The repetitions.
    """
    measures: tuple[Measure, ...] = ("accuracy", *MEASURES)
    lines = []
    for name, results in rows.items():
        for seed, result in zip(seeds, results, strict=True):
            found: dict[str, Sequence[float | None]] = {measure: result.accuracies(measure) for measure in measures}
            found |= {f"training_{measure}": result.training(measure) for measure in measures}
            for rank, peer in enumerate(result.peers):
                own: dict[str, Any] = {
                    "row": name, "algorithm": result.algorithm, **condition, "seed": seed, "rank": rank,
                    **{figure: values[rank] for figure, values in found.items()},
                    "test_loss": peer.test_loss, "training_samples": peer.training_samples,
                    "bytes_sent": peer.bytes_sent, "epsilon": (peer.privacy or {}).get("epsilon"),
                }  # fmt: skip
                lines.append(finite(own))
    return lines


def csv_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """The lines as CSV, with a header."""
    file = io.StringIO()
    writer = csv.DictWriter(file, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def as_json(experiment: Experiment, found: Sequence[tuple[Condition, ResultsByRow]]) -> dict[str, Any]:
    """All figures of a comparison; null is a figure that is not known or not finite.

    Args:
        experiment: The comparison.
        found: For each table its condition and the results.
    """
    e = experiment
    tables = [
        {
            "condition": dict(condition.values),
            "majority": majority(next(iter(rows.values()))),
            "rows": {row: _row(row, rows, e) for row in rows},
        }
        for condition, rows in found
    ]
    plain: dict[str, Any] = finite({
        "seeds": list(e.seeds), "rounds": e.base["rounds"], "baseline": e.baseline, "reference": e.reference,
        "tables": tables,
    })  # fmt: skip
    return plain


def _row(row: str, rows: ResultsByRow, e: Experiment) -> dict[str, Any]:
    results = rows[row]
    spent = [one for result in results for one in result.spent]
    measures: tuple[Measure, ...] = (*MEASURES, "accuracy")
    return {
        **{measure: _measured(figures(row, rows, measure, e.baseline, e.reference)) for measure in measures},
        "metrics": others(results),
        "diverged_seeds": sum(result.diverged for result in results),
        "bytes_sent_a_peer": fmean(result.sent for result in results),
        "samples": fmean(result.samples() for result in results),
        **({"epsilon": largest(spent)} if spent else {}),
    }


def _measured(found: RowFigures) -> dict[str, Any]:
    return {
        "mean": found.mean,
        "worst_peer": found.worst,
        "below_baseline": found.below,
        "difference": None if found.difference is None else found.difference.mean,
        "difference_half": None if found.difference is None else found.difference.half,
    }
