"""The results as CSV, with a line for every peer."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpeer.experiments.outcomes import LATE
from dpeer.experiments.tables import MEASURES, Rows


def csv_rows(rows: Rows, condition: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The figures that the tables are made of, a line for each peer."""
    lines = []
    for name, results in rows.items():
        for seed, result in zip(seeds, results, strict=True):
            figures = {
                f"{measure}{suffix}": find(measure)
                for measure in MEASURES
                for suffix, find in (("", result.last), (f"_last_{LATE}", result.late))
            }
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
