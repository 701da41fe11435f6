"""A comparison from start to end: tune, run the missing cells, write the tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpeer.exceptions import not_written
from dpeer.experiments.cells import Cell, Condition, Variant, make_cell
from dpeer.experiments.experiment import Experiment
from dpeer.experiments.grid_search import TUNE_SEED, Trial, at_edge, best, trials
from dpeer.experiments.launchers import OpenLauncher, run_cells
from dpeer.experiments.outcomes import Result, ResultsByRow
from dpeer.experiments.tables import (
    MEASURES,
    Table,
    accuracy_table,
    as_json,
    cost_table,
    csv_rows,
    csv_text,
    metric_table,
)
from dpeer.federation.policy import check_graph
from dpeer.results.files import make_folder
from dpeer.results.files import replace as replace_file
from dpeer.topology.settings import build_graph

_WITHOUT = "the same command without --shard makes what is missing and prints the tables"


Watch = Callable[[str, int, int], AbstractContextManager[Callable[[str], None]]]
"""Shows the progress of runs, given their purpose ("runs"), the number that is made now, and that of all: opens a block
with a function to call with the name of each run that has ended."""


@dataclass(frozen=True)
class Compared:
    """The result of a comparison.

    Attributes:
        chosen: The hyperparameters chosen on validation data, a line for each row; empty without a grid.
        files: The files that were written: the tables, and one with a line for every peer.
        figures: The figures of the tables as plain JSON values.
    """

    about: Sequence[str]
    chosen: Sequence[str]
    tables: Sequence[Table]
    files: tuple[Path, Path]
    figures: Mapping[str, Any]


class Unfinished(Exception):  # noqa: N818 - reads as what happened
    """Why a comparison has no tables yet, in one line."""


class Comparison:
    """One comparison, from choosing hyperparameters to tables.

    Args:
        shard: K and N: every N-th run is made, from the K-th on, and no table; None for all.
    """

    def __init__(
        self,
        experiment: Experiment,
        out: Path,
        launcher: OpenLauncher,
        watch: Watch,
        shard: tuple[int, int] | None = None,
    ) -> None:
        self._of, self._out, self._launcher, self._watch, self._shard = experiment, out, launcher, watch, shard

    def run(self) -> Compared:
        """Make the runs that are missing and write the tables.

        Raises:
            Unfinished: It was stopped, or others have runs to make.
            DpeerError: A run failed, or its folder holds another.
        """
        e = self._of
        for condition, variant in itertools.product(e.conditions, e.variants):
            asked = self.cell(variant, "", condition, e.seeds[0]).settings
            check_graph(asked.topology, asked.secret)
            build_graph(asked)  # an impossible one shows before hours of choosing
        try:
            make_folder(self._out)
        except OSError as error:
            raise not_written(f"--out {str(self._out)!r}", error) from error
        rows, remarks = self._tune(e.conditions[0])
        cells = {
            (variant.label, condition.label, seed): self.cell(variant, mark, condition, seed)
            for seed in e.seeds  # so that a stopped comparison has whole repetitions
            for condition in e.conditions
            for variant, mark in rows
        }
        self._make(cells.values(), "runs")
        if self._shard is not None:
            raise Unfinished(f"all runs are done; {_WITHOUT}")
        found = {folder: Result(folder) for folder in {cell.folder: None for cell in cells.values()}}
        whole: list[tuple[Condition, ResultsByRow]] = [
            (one, {row.label: [found[cells[row.label, one.label, seed].folder] for seed in e.seeds] for row, _ in rows})
            for one in e.conditions
        ]
        tables = [table for one, results in whole for table in self._tables(one, results)]
        lines = [line for one, results in whole for line in csv_rows(results, one.values, e.seeds)]
        about, chosen = self._about(), []
        if remarks:
            chosen = [f"chosen on validation data of {e.conditions[0].label}, seed {TUNE_SEED}:"]
            chosen += [f"- {remark}" for remark in remarks]
        files = self._out / "comparison.md", self._out / "peers.csv"
        text = ["\n\n".join(about), "", *([chosen[0], "", *chosen[1:], ""] if chosen else [])]
        replace_file(files[0], "\n".join([*text, *(table.markdown() for table in tables)]))
        replace_file(files[1], csv_text(lines))
        figures = as_json(e, whole) | {"chosen": remarks, "files": [str(file) for file in files]}
        return Compared(about, chosen, tables, files, figures)

    def cell(self, variant: Variant, mark: str, condition: Condition, seed: int) -> Cell:
        """The run of a row in a table; one run serves all tables whose differences have no effect on the row."""
        shared = condition.name(variant.settled)
        first = next(other for other in self._of.conditions if other.name(variant.settled) == shared)
        return make_cell(self._of.base, variant, first, seed, self._out, mark=mark)

    def _tune(self, condition: Condition) -> tuple[list[tuple[Variant, str]], list[str]]:
        """Tune the rows; returns the tuned rows, the mark of their folders, and lines to print."""
        e = self._of
        tried: dict[str, list[Trial]] = {
            variant.label: trials(e.base, variant, e.grid, condition, e.validation, self._out) for variant in e.variants
        }
        self._make((trial.cell for found in tried.values() for trial in found), "tuning runs")
        rows, remarks = [], []
        for variant in e.variants:
            if not tried[variant.label]:
                rows.append((variant, ""))
                continue
            chosen = best(tried[variant.label])
            rows.append((replace(variant, changes={**variant.changes, **chosen.values}), chosen.mark))
            words = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in chosen.values.items())
            edge = at_edge(chosen.values, e.grid)
            beyond = f"; {', '.join(name.replace('_', '-') for name in edge)} at the grid's edge" if edge else ""
            remarks.append(f"{variant.label}: {words} (accuracy {chosen.score():.4f}{beyond})")
        return rows, remarks

    def _make(self, cells: Iterable[Cell], what: str) -> None:
        """Run the shard's cells that are missing; those with one folder are one run."""
        every = [*{cell.folder: cell for cell in cells}.values()]
        number, count = self._shard or (1, 1)
        own = every[number - 1 :: count]
        with self._watch(what, sum(not cell.done for cell in own), len(own)) as tell:
            if not run_cells(own, self._launcher, tell):
                raise Unfinished("stopped; the same command goes on")
        if left := sum(not cell.done for cell in every):
            raise Unfinished(
                f"shard {number}/{count}: its {len(own)} {what} are done, {left} left to others; {_WITHOUT}"
            )

    def _tables(self, condition: Condition, rows: ResultsByRow) -> list[Table]:
        e = self._of
        tables = [accuracy_table(condition.label, measure, rows, e.baseline, e.reference) for measure in MEASURES]
        if any(result.keeps_another for results in rows.values() for result in results):
            tables.append(accuracy_table(condition.label, "accuracy", rows, e.baseline, e.reference))
        if metrics := metric_table(condition.label, rows):
            tables.append(metrics)
        return [*tables, cost_table(condition.label, rows)]

    def _about(self) -> list[str]:
        e = self._of
        seeds = len(e.seeds)
        lines = [f"{seeds} seed{'s' * (seeds > 1)}, {e.base['rounds']} rounds; means over seeds and peers"]
        if len(e.variants) > 1:
            lines[0] += "; " + (
                "±: half the 95 % interval of the paired difference (Student's t over seeds, each row by itself)"
                if seeds > 1
                else "one seed has no intervals"
            )
        lines += [
            "every column is of the round or the model that its table's title names",
            "worst peer: the lowest accuracy of a peer, mean over seeds",
        ]
        if e.baseline is not None and len(e.variants) > 1:
            lines.append(f"below {e.baseline}: share of the peers that do worse than they do in {e.baseline}")
        return lines
