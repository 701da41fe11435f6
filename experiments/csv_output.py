"""Results as csv, a line per peer."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpeer.experiments.outcomes import Measure, Result
from dpeer.experiments.row_statistics import Rows
from dpeer.experiments.tables import MEASURES

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
            figures |= _fits(result)
            for rank, peer in enumerate(result.peers):
                own = {figure: _or_empty(values[rank]) for figure, values in figures.items()}
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


def _fits(result: Result) -> dict[str, list[float]]:
    """Every peer's training accuracy and generalization gap in the last round and of the kept model, where measured."""
    found: dict[str, list[float]] = {}
    measures: tuple[Measure, ...] = (*MEASURES, "accuracy")
    for measure in measures:
        if (training := result.training(measure)) is not None:
            ending = measure.removeprefix("accuracy")
            gaps = [one - test for one, test in zip(training, result.accuracies(measure), strict=True)]
            found |= {f"training_accuracy{ending}": training, f"generalization_gap{ending}": gaps}
    return found


def _or_empty(value: float) -> float | None:
    return None if math.isnan(value) else value
