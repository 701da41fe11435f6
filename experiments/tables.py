"""The tables of a comparison, for the terminal and as Markdown; and its figures as CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from dpeer.experiments.cells import Condition
from dpeer.experiments.experiment import Experiment
from dpeer.experiments.outcomes import Measure, ResultsByRow, figures, majority, others
from dpeer.results.figures import called, largest, largest_cost
from dpeer.results.files import finite
from dpeer.results.units import decimals, size

_COLUMNS = 5
"""More metrics do not fit beside each other; `--json` and each run's summary.json have all."""

MEASURES: Mapping[Measure, str] = {
    "accuracy_mixed": "after mixing",
    "accuracy_trained": "after local training, before mixing",
}
"""The accuracies that are measured in rounds, in words."""


@dataclass(frozen=True)
class Table:
    """A table as text.

    Attributes:
        columns: Headings; the first is that of the rows' names.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    remarks: list[str]

    def markdown(self) -> str:
        """The table as Markdown."""
        lines = [f"**{self.title}**", "", _line(self.columns), _line(["---", *["---:"] * (len(self.columns) - 1)])]
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, *(f"\n{remark}" for remark in self.remarks), ""])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def accuracy_table(condition: str, measure: Measure, rows: ResultsByRow, baseline: str | None, reference: str) -> Table:
    """Accuracies of all rows of one condition, over seeds; every column is of the last round, or of the kept model."""
    title, name = ("of the kept model", "kept") if measure == "accuracy" else ("last round", "last round")
    columns = ["", name, "worst peer"]
    columns += [f"below {baseline}"] * (baseline is not None)
    columns += [f"{name} - {reference}"] * (len(rows) > 1)
    lines = []
    for row in rows:
        found = figures(row, rows, measure, baseline, reference)
        line = [row, _four(found.mean), _four(found.worst_peer)]
        if baseline is not None:
            line.append("-" if found.below_baseline is None else f"{found.below_baseline:.0%}")
        if len(rows) > 1:
            line.append(_signed(found.difference, found.difference_half))
        lines.append(line)
    remarks = []
    if (share := majority(next(iter(rows.values())))) is not None:
        remarks.append(f"always answering each peer's most frequent training class: {share:.4f}")
    remarks += _equal(rows) if measure == "accuracy_mixed" else []
    done = [row for row, results in rows.items() if any(result.finished for result in results)]
    if measure == "accuracy" and done and len(done) < len(rows):
        remarks.append(f"finished at home: {', '.join(done)}; the others are not")
    counts = {row: sum(result.diverged for result in results) for row, results in rows.items()}
    if gone := [f"{row} ({count} of {len(rows[row])} seeds)" for row, count in counts.items() if count]:
        remarks.append(f"training diverged in a peer (loss not finite): {', '.join(gone)}")
    what = title if measure == "accuracy" else f"{MEASURES[measure]}, {title}"
    return Table(f"{condition}: accuracy {what}", columns, lines, remarks)


def _equal(rows: ResultsByRow) -> list[str]:
    """Lines on rows that are the same computation, such as two algorithms that settings alone set apart."""
    found: dict[tuple[object, ...], list[str]] = {}
    for row, results in rows.items():
        found.setdefault(tuple(result.course for result in results), []).append(row)
    return [
        f"{', '.join(same)}: equal in each round of each peer, for what sets them apart changes nothing with these "
        "settings"
        for same in found.values()
        if len(same) > 1
    ]


def metric_table(condition: str, rows: ResultsByRow) -> Table | None:
    """The other metrics of all rows after mixing, over seeds; None if no row has any."""
    found = {row: others(results) for row, results in rows.items()}
    names = list(dict.fromkeys(name for values in found.values() for name in values))
    if not names:
        return None
    shown = names[:_COLUMNS]
    lines = [[row, *(_four(values.get(name)) for name in shown)] for row, values in found.items()]
    left = [f"more in --json: {', '.join(map(called, names[_COLUMNS:]))}"] if len(names) > _COLUMNS else []
    title = f"{condition}: other metrics after mixing, last round"
    return Table(title, ["", *map(called, shown)], lines, left)


def cost_table(condition: str, rows: ResultsByRow) -> Table:
    """The costs of the whole runs; where any is private, the largest epsilon of all peers and seeds, too."""
    spent = {row: [one for result in results for one in result.spent] for row, results in rows.items()}
    private = any(spent.values())
    lines = [
        [
            row,
            size(round(fmean(result.sent for result in results))),
            f"{fmean(result.samples() for result in results):,.0f}",
            *([largest_cost(spent[row]) if spent[row] else "-"] if private else []),
        ]
        for row, results in rows.items()
    ]
    columns = ["", "sent a peer", "samples processed", *(["epsilon"] if private else [])]
    remarks = [
        "epsilon: of one run, the largest of all peers and seeds; the runs of all rows and seeds, and those that chose "
        "values, used the same data, and have cost more together"
    ]
    return Table(f"{condition}: the whole run", columns, lines, remarks if private else [])


def _signed(difference: float | None, half: float | None) -> str:
    """A difference with the half width of its 95 % interval."""
    if difference is None or math.isnan(difference):
        return "-"
    return decimals(difference, "+") + ("" if half is None else f" ± {decimals(half)}")


def _four(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else decimals(value)


def csv_rows(rows: ResultsByRow, condition: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """The figures that the tables are made of, a line for each peer; None for a figure that is not known."""
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
    """All figures of a comparison; null is a figure that is not known or not finite."""
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
        **{measure: asdict(figures(row, rows, measure, e.baseline, e.reference)) for measure in measures},
        "metrics": others(results),
        "diverged_seeds": sum(result.diverged for result in results),
        "bytes_sent_a_peer": fmean(result.sent for result in results),
        "samples": fmean(result.samples() for result in results),
        **({"epsilon": largest(spent)} if spent else {}),
    }
