"""Tables of accuracy at given rounds, at given epsilons, and on the training data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from dpeer.experiments.outcomes import Measure, Result
from dpeer.experiments.row_statistics import Rows
from dpeer.experiments.statistics import Interval, interval
from dpeer.experiments.tables import MEASURES, Table, rounds_of, signed


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
