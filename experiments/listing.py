"""The results as CSV, with a line for every peer."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpeer.experiments.figures import Rows
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
    writer = csv.DictWriter(file, fieldnames=list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def _or_empty(value: float) -> float | None:
    return None if math.isnan(value) else value
