"""The course of a comparison: choose hyperparameters, run what is missing, write the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dpeer.cli.compare.cells import ASKED, Cell, Condition, make_cell
from dpeer.cli.compare.experiment import Experiment
from dpeer.cli.compare.listing import csv_rows, csv_text
from dpeer.cli.compare.results import Result
from dpeer.cli.compare.running import run_cells
from dpeer.cli.compare.tables import MEASURES, Table, accuracy_table, cost_table, target_table
from dpeer.cli.compare.tuning import Trial, at_edge, best, trials
from dpeer.cli.compare.variants import Variant
from dpeer.cli.graph import build_graph
from dpeer.exceptions import OutputError

_NAMED = 3
"""How many of the runs that are left out are named."""


class Comparison:
    """One call of `dpeer compare`.

    Args:
        experiment: What is compared.
        out: Where runs and tables lie.
        jobs: Runs at a time.
        console: Where progress is shown.
    """

    def __init__(self, experiment: Experiment, out: Path, jobs: int, console: Console) -> None:
        self._of, self._out, self._jobs, self._console = experiment, out, jobs, console

    def run(self) -> int:
        """Do all of it; returns the exit code.

        Raises:
            DpeerError: A run failed, or its folder holds another.
        """
        tables = self._of.conditions
        for condition in tables:  # what cannot be shows before hours of choosing
            for variant in self._of.variants:
                build_graph(self._cell(variant, "", condition, self._of.seeds[0]).settings)
        try:
            self._out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"--out {str(self._out)!r} cannot be written: {error.strerror}") from error
        tuned = self._tune(tables[0])
        if tuned is None:
            return self._stopped()
        rows, remarks = tuned
        cells = {
            (variant.label, condition.label, seed): self._cell(variant, mark, condition, seed)
            for seed in self._of.seeds  # so that a stopped comparison has whole repetitions
            for condition in tables
            for variant, mark in rows
        }
        if not self._make(cells.values(), "runs"):
            return self._stopped()
        found = {folder: Result(folder) for folder in {cell.folder: None for cell in cells.values()}}
        shown: list[Table] = []
        lines: list[dict[str, Any]] = []
        for condition in tables:
            results = {
                variant.label: [found[cells[variant.label, condition.label, seed].folder] for seed in self._of.seeds]
                for variant, _ in rows
            }
            shown += self._tables(condition, results)
            lines += csv_rows(results, condition.values, self._of.seeds)
        self._write(shown, lines, remarks)
        if left := left_out(self._out, found):
            click.echo(left)
        return 0

    def _cell(self, variant: Variant, mark: str, condition: Condition, seed: int) -> Cell:
        """The run of a row in a table; one run serves all tables that differ in what means nothing to the row."""
        shared = condition.name(variant.settled)
        first = next(other for other in self._of.conditions if other.name(variant.settled) == shared)
        return make_cell(self._of.base, variant, first, seed, self._out, mark=mark)

    def _tune(self, condition: Condition) -> tuple[list[tuple[Variant, str]], list[str]] | None:
        """The rows with what was chosen for them, their folders' mark, and what to say; None if it was stopped."""
        e = self._of
        tried: dict[str, list[Trial]] = {
            variant.label: trials(e.base, variant, e.grid, condition, e.tune_seeds, e.validation, self._out)
            for variant in e.variants
        }
        if not self._make((cell for found in tried.values() for trial in found for cell in trial.cells), "tuning runs"):
            return None
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

    def _make(self, cells: Iterable[Cell], what: str) -> bool:
        """Run what is missing of the cells; False if it was stopped."""
        by_folder: dict[Path, Cell] = {}
        for cell in cells:
            by_folder.setdefault(cell.folder, cell)
        all_cells = list(by_folder.values())
        missing = sum(not cell.done for cell in all_cells)
        if missing and not self._console.is_terminal:
            click.echo(f"{missing} of {len(all_cells)} {what} to make in {self._out}", err=True)
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("for"), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(elapsed_when_finished=False),
        )  # fmt: skip
        with Progress(
            *columns, console=self._console, disable=not self._console.is_terminal or not missing
        ) as progress:
            bar = progress.add_task(what, total=missing)
            ended = 0

            def tell(name: str) -> None:
                nonlocal ended
                ended += 1
                progress.advance(bar)
                if not self._console.is_terminal:
                    click.echo(f"{ended}/{missing} {name}", err=True)

            return run_cells(all_cells, self._jobs, tell)

    def _tables(self, condition: Condition, rows: dict[str, list[Result]]) -> list[Table]:
        e = self._of
        tables = [accuracy_table(condition.label, measure, rows, e.baseline, e.reference) for measure in MEASURES]
        if e.target is not None:
            tables += [target_table(condition.label, measure, rows, e.target) for measure in MEASURES]
        return [*tables, cost_table(condition.label, rows)]

    def _write(self, tables: Sequence[Table], lines: list[dict[str, Any]], remarks: Sequence[str]) -> None:
        e, console = self._of, Console()
        seeds = len(e.seeds)
        about = f"{seeds} seed{'s' * (seeds > 1)}, {e.base['rounds']} rounds; means over seeds and peers; " + (
            "±: half the 95 % interval of the paired difference (Student's t over seeds, each row by itself)"
            if seeds > 1
            else "of one seed there are no intervals"
        )
        chosen = []
        if remarks:
            where = f"chosen on validation data of {e.conditions[0].label}, seed {', '.join(map(str, e.tune_seeds))}:"
            chosen = [where, "", *(f"- {remark}" for remark in remarks)]
        for line in [about, *filter(None, chosen), ""]:
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        for table in tables:
            table.show(console)
        text = "\n".join([about, "", *chosen, *([""] if chosen else []), *(table.markdown() for table in tables)])
        _replace(self._out / "comparison.md", text)
        _replace(self._out / "peers.csv", csv_text(lines))
        click.echo(f"tables {self._out / 'comparison.md'}; every peer {self._out / 'peers.csv'}; a folder for each run")

    def _stopped(self) -> int:
        click.echo("dpeer: stopped; the same command goes on", err=True)
        return 0


def left_out(out: Path, shown: Collection[Path]) -> str | None:
    """A line on earlier runs in a comparison's folder that its new tables do not have; None if there are none.

    Args:
        out: The comparison's folder.
        shown: The folders of the runs that they have.
    """
    ended = {path.parent for path in out.glob("*/summary.json")} & {path.parent for path in out.glob(f"*/{ASKED}")}
    found = sorted(folder.name for folder in ended.difference(shown))
    if not found:
        return None
    some = ", ".join(found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
    count = "1 run" if len(found) == 1 else f"{len(found)} runs"
    return f"not in these tables, but still in {out}: {count} of earlier comparisons ({some})"


def _replace(path: Path, text: str) -> None:
    """Write a file so that the tables of before are there until the new ones are."""
    draft = path.with_name(f".{path.name}.tmp")
    draft.write_text(text)
    draft.replace(path)
