"""The tables of a comparison, for the terminal and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from dpeer.experiments.outcomes import Measure, Result
from dpeer.experiments.row_statistics import Rows, figures, majority, others
from dpeer.experiments.statistics import WINDOW, Interval, interval
from dpeer.results.costs import largest_cost
from dpeer.results.figures import called
from dpeer.results.units import size

_COLUMNS = 5
"""More metrics do not fit beside each other; `--json` and each run's summary.json have all."""

MEASURES: Mapping[Measure, str] = {
    "accuracy_mixed": "after mixing",
    "accuracy_trained": "after local training, before mixing",
}
"""What is measured in rounds, in words."""


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


def accuracy_table(
    condition: str, measure: Measure, rows: Rows, baseline: str | None, reference: str, last: int = 1
) -> Table:
    """Accuracies of all rows of one condition, over seeds; every column is of the same rounds, which the title names.

    Args:
        condition: The condition in words.
        measure: Which of the accuracies.
        rows: The results.
        baseline: The row that trains alone, if there is one.
        reference: The row that the others are compared with.
        last: Every figure is of a peer's mean over the evaluated ones of so many of the last rounds.
    """
    results = next(iter(rows.values()))
    title, name = ("of the kept model", "kept") if measure == "accuracy" else _rounds(results[0], last)
    columns = ["", name, "worst peer"]
    columns += [f"below {baseline}"] * (baseline is not None)
    columns += [f"{name} - {reference}"] * (len(rows) > 1)
    lines = []
    for row in rows:
        found = figures(row, rows, measure, baseline, reference, last)
        line = [row, _figure(found.mean), _figure(found.worst)]
        if baseline is not None:
            line.append("-" if found.below is None else f"{found.below:.0%}")
        if len(rows) > 1:
            line.append("-" if found.difference is None else signed(found.difference))
        lines.append(line)
    remarks = []
    if (share := majority(results)) is not None:
        remarks.append(f"always answering each peer's most frequent training class: {share:.4f}")
    done = [row for row, found in rows.items() if any(result.finished for result in found)]
    if measure == "accuracy" and done and len(done) < len(rows):
        remarks.append(f"finished at home: {', '.join(done)}; the others are not")
    if gone := [f"{row} ({number} of {len(rows[row])} seeds)" for row, number in _diverged(rows).items()]:
        remarks.append(f"training diverged in a peer (loss not finite): {', '.join(gone)}")
    what = title if measure == "accuracy" else f"{MEASURES[measure]}, {title}"
    return Table(f"{condition}: accuracy {what}", columns, lines, remarks)


def metric_table(condition: str, rows: Rows, last: int = 1) -> Table | None:
    """What else the peers of all rows were measured by, after mixing, over seeds; None if there is nothing else."""
    found = {row: others(results, last) for row, results in rows.items()}
    names = list(dict.fromkeys(name for values in found.values() for name in values))
    if not names:
        return None
    shown = names[:_COLUMNS]
    lines = [[row, *(_figure(values.get(name, math.nan)) for name in shown)] for row, values in found.items()]
    left = [f"more in --json: {', '.join(map(called, names[_COLUMNS:]))}"] if len(names) > _COLUMNS else []
    title, _ = _rounds(next(iter(rows.values()))[0], last)
    return Table(f"{condition}: other metrics after mixing, {title}", ["", *map(called, shown)], lines, left)


def rounds_of(result: Result, last: int) -> str:
    """The rounds that figures are of, in words."""
    return _rounds(result, last)[0]


def _rounds(result: Result, last: int) -> tuple[str, str]:
    """The rounds that a table is of, for its title and, shorter, for a column."""
    among, evaluated = min(last, result.rounds), result.evaluated(last)
    if evaluated == 1:  # a mean of one round is that round, however many were asked for
        return "last round", "last round"
    which = f"last {among}"
    those = "" if evaluated == among else f"{evaluated} evaluated ones of the "
    return f"mean of the {those}{which} rounds", which


def _diverged(rows: Rows) -> dict[str, int]:
    counts = {name: sum(result.diverged for result in results) for name, results in rows.items()}
    return {name: count for name, count in counts.items() if count}


def cost_table(condition: str, rows: Rows) -> Table:
    """The costs of the whole runs; where any is private, the largest epsilon of all peers and seeds, too."""
    spent = {name: [one for result in results for one in result.spent] for name, results in rows.items()}
    private = any(spent.values())
    lines = [
        [
            name,
            size(round(fmean(r.sent for r in results))),
            _samples([r.samples() for r in results]),
            *([largest_cost(spent[name]) if spent[name] else "-"] if private else []),
        ]
        for name, results in rows.items()
    ]
    columns = ["", "sent a peer", "samples processed", *(["epsilon"] if private else [])]
    remarks = [
        "epsilon: of one run, the largest of all peers and seeds; the runs of all rows and seeds, and those that chose "
        "values, used the same data, and together have told more"
    ]
    return Table(f"{condition}: the whole run", columns, lines, remarks if private else [])


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


@dataclass(frozen=True)
class Gap:
    """How well a row does on training data, over seeds and peers.

    Attributes:
        training: The mean training accuracy.
        test: The mean accuracy on test data, of the same rounds.
        gap: The generalization gap, training accuracy less accuracy, with its 95 % interval over the seeds.
    """

    training: float
    test: float
    gap: Interval


@dataclass(frozen=True)
class Within:
    """What a row reaches within a privacy budget, over the seeds that have an evaluated round within it.

    Attributes:
        accuracy: The mean accuracy.
        rounds: The mean number of rounds.
        seeds: How many seeds those are.
    """

    accuracy: float
    rounds: float
    seeds: int


def gap_of(results: Sequence[Result], measure: Measure, last: int = 1) -> Gap | None:
    """A row's training accuracy and generalization gap; None where some run has not measured it."""
    training, test = [], []
    for result in results:
        found = result.training(measure, last)
        if found is None:
            return None
        training.append(fmean(found))
        test.append(fmean(result.accuracies(measure, last)))
    return Gap(fmean(training), fmean(test), interval([a - b for a, b in zip(training, test, strict=True)]))


def at_round(results: Sequence[Result], measure: Measure, rounds: int) -> float | None:
    """The mean over seeds of the accuracy after so many rounds; None where a run did not evaluate then."""
    found = [result.at_round(measure, rounds) for result in results]
    known = [one for one in found if one is not None]
    return fmean(known) if len(known) == len(found) else None


def at_epsilon(results: Sequence[Result], measure: Measure, budget: float) -> Within | None:
    """What a row reaches before any peer has spent more than a budget; None if no seed has such a round."""
    found = [one for result in results if (one := result.at_epsilon(measure, budget)) is not None]
    if not found:
        return None
    return Within(fmean(accuracy for _, accuracy in found), fmean(rounds for rounds, _ in found), len(found))


def gap_table(condition: str, measure: Measure, rows: Rows, last: int = 1) -> Table | None:
    """Training accuracy, test accuracy and their difference; None if no row has measured the first."""
    found = {row: gap_of(results, measure, last) for row, results in rows.items()}
    if not any(found.values()):
        return None
    lines = [
        [row, "-", "-", "-"] if gap is None else [row, _four(gap.training), _four(gap.test), signed(gap.gap)]
        for row, gap in found.items()
    ]
    rounds = rounds_of(next(iter(rows.values()))[0], last)
    what = "of the kept model" if measure == "accuracy" else f"{MEASURES[measure]}, {rounds}"
    remark = "generalization gap: training accuracy less test accuracy, each peer on its own data"
    return Table(
        f"{condition}: training accuracy {what}", ["", "training", "test", "generalization gap"], lines, [remark]
    )


def rounds_table(condition: str, measure: Measure, rows: Rows, rounds: Sequence[int]) -> Table:
    """The accuracy after given numbers of rounds."""
    lines = [[row, *(_four(at_round(results, measure, number)) for number in rounds)] for row, results in rows.items()]
    missing = [number for place, number in enumerate(rounds, 1) if any(line[place] == "-" for line in lines)]
    remarks = [f"-: not evaluated in round {', '.join(map(str, missing))}"] if missing else []
    columns = ["", *(f"round {number}" for number in rounds)]
    return Table(f"{condition}: accuracy {MEASURES[measure]}, in given rounds", columns, lines, remarks)


def epsilon_table(condition: str, measure: Measure, rows: Rows, budgets: Sequence[float]) -> Table:
    """The accuracy that was reached before any peer had spent more than given epsilons, and after how many rounds."""
    lines, fewer = [], []
    for row, results in rows.items():
        line = [row]
        for budget in budgets:
            found = at_epsilon(results, measure, budget)
            line += ["-", "-"] if found is None else [_four(found.accuracy), f"{found.rounds:.1f}"]
            if found is not None and found.seeds < len(results):
                fewer.append(f"{row} at {budget:g}: {found.seeds} of {len(results)} seeds")
        lines.append(line)
    columns = [""]
    for budget in budgets:
        columns += [f"epsilon {budget:g}", "rounds"]
    remarks = ["of the last evaluated round in which no peer had spent more; a dash: no round, or not private"]
    remarks += [f"not all seeds have one: {'; '.join(fewer)}"] if fewer else []
    return Table(f"{condition}: accuracy {MEASURES[measure]}, at given epsilons", columns, lines, remarks)


def _four(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"
