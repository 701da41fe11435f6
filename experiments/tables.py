"""The tables of a comparison, for the terminal and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from dpeer.experiments.outcomes import LATE, Measure, Result
from dpeer.experiments.statistics import WINDOW, Interval, interval
from dpeer.results.units import size

MEASURES: Mapping[Measure, str] = {
    "accuracy": "after mixing",
    "accuracy_trained": "after local training, before mixing",
}


@dataclass(frozen=True)
class Table:
    """A table as text.

    Attributes:
        title: One line above it.
        columns: Headings; the first is that of the rows' names.
        rows: Cells, as text.
        remarks: Lines below it.
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


Rows = Mapping[str, Sequence[Result]]
"""By row, the results of one condition, one a seed, in the same order of seeds for all rows."""


def accuracy_table(condition: str, measure: Measure, rows: Rows, baseline: str | None, reference: str) -> Table:
    """Accuracies of all rows of one condition, over seeds.

    Args:
        condition: The condition in words.
        measure: Which of the two accuracies.
        rows: The results.
        baseline: The row that trains alone, if there is one.
        reference: The row that the others are compared with.
    """
    some = next(iter(rows.values()))
    # One evaluated round is no mean of several: the column would say again what stands beside it.
    several = any(result.late_rounds > 1 for results in rows.values() for result in results)
    late = f"last {min(LATE, some[0].rounds)}"
    columns = ["", "last round", *([late] if several else []), "worst peer"]
    columns += [f"below {baseline}"] * (baseline is not None)
    columns += [f"{late if several else 'last round'} - {reference}"] * (len(rows) > 1)
    shown = ("last", "late", "worst") if several else ("last", "worst")
    lines = []
    for name, results in rows.items():
        figures = summarise(results, rows, measure, baseline, reference)
        line = [name, *(_figure(figures[key]) for key in shown)]
        if baseline is not None:
            line.append("-" if figures["below"] is None else f"{figures['below']:.0%}")
        if len(rows) > 1:
            line.append("-" if name == reference else signed(figures["difference"]))
        lines.append(line)
    majority = [result.majority for result in some]
    known = [value for value in majority if value is not None]
    remarks = []
    if len(known) == len(majority):
        remarks.append(f"always answering each peer's most frequent training class: {fmean(known):.4f}")
    if gone := [f"{name} ({number} of {len(rows[name])} seeds)" for name, number in _diverged(rows).items()]:
        remarks.append(f"training diverged in a peer (loss not finite): {', '.join(gone)}")
    return Table(f"{condition}: accuracy {MEASURES[measure]}", columns, lines, remarks)


def _diverged(rows: Rows) -> dict[str, int]:
    counts = {name: sum(result.diverged for result in results) for name, results in rows.items()}
    return {name: count for name, count in counts.items() if count}


def summarise(
    results: Sequence[Result], rows: Rows, measure: Measure, baseline: str | None, reference: str
) -> dict[str, Any]:
    """A row's figures.

    Returns:
        ``last`` and ``late``, means over seeds and peers; ``worst``, the mean over seeds of the worst peer's;
        ``below``, the share of peers below their own baseline (all peers of all seeds count alike); ``difference``, the
        paired difference to the reference. All but ``last`` are of the last `LATE` rounds. NaN where training has left
        no accuracy.
    """
    last = [result.last(measure) for result in results]
    late = [result.late(measure) for result in results]
    below = None
    if baseline is not None and results is not rows[baseline]:
        alone = [value for result in rows[baseline] for value in result.late(measure)]
        here = [value for values in late for value in values]
        # Who has no accuracy any more is below; where the baseline has none, nobody can tell.
        pairs = [pair for pair in zip(here, alone, strict=True) if not math.isnan(pair[1])]
        below = fmean(not mine >= other for mine, other in pairs) if pairs else None
    other = [fmean(result.late(measure)) for result in rows[reference]]
    return {
        "last": fmean(map(fmean, last)),
        "late": fmean(map(fmean, late)),
        "worst": fmean(math.nan if any(map(math.isnan, values)) else min(values) for values in late),
        "below": below,
        "difference": interval([fmean(mine) - there for mine, there in zip(late, other, strict=True)]),
    }


def cost_table(condition: str, rows: Rows) -> Table:
    """The costs of the whole runs."""
    lines = [
        [name, size(round(fmean(r.sent for r in results))), _samples([r.samples() for r in results])]
        for name, results in rows.items()
    ]
    return Table(f"{condition}: the whole run", ["", "sent a peer", "samples processed"], lines, [])


def target_table(condition: str, measure: Measure, rows: Rows, target: float) -> Table:
    """The costs until the smoothed accuracy reached a target."""
    lines = []
    for name, results in rows.items():
        found = [cost for result in results if (cost := result.reached(measure, target)) is not None]
        figures = ["-", "-", "-"]
        if found:
            figures = [
                f"{fmean(cost.rounds for cost in found):.1f}",
                _samples([cost.samples for cost in found]),
                size(round(fmean(cost.busiest_bytes for cost in found))),
            ]
        lines.append([name, f"{len(found)} of {len(results)}", *figures])
    return Table(
        f"{condition}: to {target:g} {MEASURES[measure]}",
        ["", "seeds", "rounds", "samples processed", "busiest peer sent"],
        lines,
        [f"reached: the mean over peers of {WINDOW} evaluated rounds in a row; means over the seeds that reached it"],
    )


def signed(difference: Interval) -> str:
    """A difference with the half width of its 95 % interval."""
    if math.isnan(difference.mean):
        return "-"
    half = "" if difference.half is None else f" ± {difference.half:.4f}"
    return f"{difference.mean:+.4f}{half}"


def _samples(counts: Sequence[int | None]) -> str:
    """The mean number of gradients; a dash if a run of an older version did not record it."""
    known = [count for count in counts if count is not None]
    return f"{fmean(known):,.0f}" if len(known) == len(counts) else "-"


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4f}"
