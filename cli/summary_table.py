"""The final table of a run of all peers."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from dpeer.cli.tables import filled
from dpeer.results.effect import (
    LOCAL_ONLY,
    Effect,
    effects_by_rank,
    headline,
    interval_text,
    members_text,
    pooled,
    verdict_word,
)
from dpeer.results.figures import NAMES, called, in_words, privacy_line
from dpeer.results.run_folders import rank_folders, read_members
from dpeer.results.training_alerts import ranks_rows
from dpeer.results.units import decimals, size

_INTERVAL = "95 % interval"

_MANY, _WORST = 40, 10
"""With more peers than that, only so many are printed: those that did worst."""

_COLUMNS = 5
"""Metrics of a task's own in the table: more do not fit 80 columns; summary.json has all."""

_USUAL = ("balanced_accuracy", "auroc", "sensitivity", "specificity")
_VALUES = ("mae", "rmse", "r2")

_POINTS = {
    "trained": "before mixing",
    "mixed": "after mixing",
    "finished": "finished",
    "blend": f"blended with {LOCAL_ONLY}",
    "alone": LOCAL_ONLY,
}
_NOT_FEDERATED = {"blend", "alone"}
"""Points of kept models that are not the federated one, or not that alone."""


def show(console: Console, summary: Mapping[str, Any], out: Path) -> None:
    """Print how the peers did, beside their local-only models if those were trained, and where the files are."""
    if all(rounds is None for rounds in summary["completed_rounds"]):
        return  # no peer left a result
    run, say = _Run(summary, out), partial(console.print, highlight=False, markup=False, soft_wrap=True)
    say(run.title())
    console.print(run.table())
    for line in filter(None, run.remarks()):
        say(line)
    by_rank: Mapping[str, Sequence[float | None]] = summary.get("metrics") or {}
    mean: Mapping[str, float | None] = summary.get("metrics_mean") or {}
    models = "kept models" if run.keeps_others else "peers"
    if own := [name for name in by_rank if name not in NAMES or name in _VALUES]:
        if run.keeps_others:
            say("metrics of the kept models:")
        headings = dict.fromkeys(("rank", *map(called, own[:_COLUMNS])), "right")
        rows: list[tuple[Any, ...]] = [
            (rank, *(decimals(by_rank[name][rank]) for name in own[:_COLUMNS])) for rank in run.shown
        ]
        rows.append(("mean", *(decimals(mean.get(name)) for name in own[:_COLUMNS])))
        console.print(_apart(filled(Table(), headings, rows)))
        if more := own[_COLUMNS:]:
            say(f"more metrics in summary.json: {', '.join(more)}")
    if words := in_words({name: mean[name] for name in _USUAL if name in mean}):
        say(f"mean over the {models}: {words}")
    for fact in _facts(summary, out):
        say(fact)


class _Row(NamedTuple):
    """A peer's federated model, and its local-only one where both were compared by the run's measure."""

    federated: float | None
    alone: float | None
    gain: float | None
    worth: Effect | None

    def cells(self, measure: str) -> list[str]:
        """Its cells, from that of the federated model on."""
        found = [decimals(self.federated), decimals(self.alone), decimals(self.gain, "+")]
        if self.worth is None or self.worth.gain is None:
            return [*found, "-", "-"]
        if self.worth.measure != measure:  # the accuracy of single rows is not known
            return [*found, "-", f"{verdict_word(self.worth)} (by loss)"]
        return [*found, interval_text(self.worth), verdict_word(self.worth)]


class _Run:
    """A run of all peers that has ended: federated models, beside local-only ones if those were trained."""

    def __init__(self, summary: Mapping[str, Any], out: Path) -> None:
        self._summary, self._out = summary, out
        self._points, self._rounds = summary["kept_point"], summary["kept_round"]
        self._worth = effects_by_rank(summary.get("worth")) or (None,) * len(self._points)
        settings = summary.get("settings") or {}
        # Rank 0 may have too few samples to choose by, and keep its last model.
        self._best = settings.get("keep") in ("best", "blend") or any(
            one is not None and one + 1 != last
            for one, last in zip(self._rounds, summary["completed_rounds"], strict=True)
        )
        self._shared = settings.get("test_split") == "shared"
        # What the peers are compared by; else their accuracy, or a regression's loss.
        compared = {one.measure for one in self._worth if one is not None and one.verdict is not None}
        of_loss = compared == {"test_loss"} or summary["accuracy_mean"] is None
        self._measure = "test_loss" if of_loss else "accuracy"
        self._name = self._measure.replace("_", " ")
        self._rows = list(map(self._row, summary[self._measure], self._points, self._worth))
        self._compared = any(row.alone is not None for row in self._rows)
        self._members = read_members(rank_folders(out).values()) or range(len(self._rows))
        of_members = [row for rank, row in enumerate(self._rows) if rank in self._members]
        self._own = [row.federated for row in of_members if row.federated is not None]
        self._both = [row for row in of_members if row.gain is not None]

    def _row(self, kept: float | None, point: str | None, worth: Effect | None) -> _Row:
        same = worth if worth is not None and worth.measure == self._measure else Effect()
        federated = same.joined if point in _NOT_FEDERATED else kept
        alone = same.alone if same.verdict else None
        return _Row(federated, alone, None if None in (federated, alone) else same.gain, worth)

    @property
    def keeps_others(self) -> bool:
        """Whether a peer keeps another model than the federated one."""
        return bool(_NOT_FEDERATED & {*self._points})

    @property
    def shown(self) -> list[int]:
        """The ranks to print: all, or where they are many those that did worst."""
        sign = 1 if self._measure == "accuracy" else -1
        known = [-math.inf if row.federated is None else sign * row.federated for row in self._rows]
        worst = sorted(range(len(known)), key=known.__getitem__)
        return sorted(worst if len(worst) <= _MANY else worst[:_WORST])

    def title(self) -> str:
        """What the table is of."""
        points = [point for point in self._points if point is not None]
        done = points.count("finished")
        some = "" if done == len(points) else f"{done} of {len(points)} "
        finished = f", {some}finished at home" if done else ""
        which, by = ("best of", " by validation loss") if self._best else ("after", finished)
        lower = "" if self._measure == "accuracy" else " (lower is better)"
        rounds = f"{which} {self._summary['rounds']} rounds{by}"
        return f"{self._summary['algorithm']} {rounds}: {self._name} on each peer's own test data{lower}"

    def table(self) -> Table:
        """The table; its last row is that of the members that have both figures, or else one."""
        headings = ["rank", self._name]
        if self._compared:
            headings = ["rank", "federated", LOCAL_ONLY, "gain", _INTERVAL, "verdict"]
        table = Table()
        for name in headings:  # intervals and verdicts may take two lines
            table.add_column(name, justify="right", no_wrap=name not in (_INTERVAL, "verdict"))
        for rank in self.shown:
            table.add_row(str(rank), *self._rows[rank].cells(self._measure)[: len(headings) - 1])
        if len(self._rows) > _MANY:
            table.add_row("...", f"{len(self._rows) - _WORST} better")
        last = _Row(_mean(self._own), None, None, None)
        if self._both:
            # Where peers have the same rows, they have no verdict together.
            worth = {} if self._shared else dict(enumerate(self._worth))
            whole = pooled([worth.get(rank) for rank in self._members])
            federated, alone, gain = map(_mean, zip(*(row[:3] for row in self._both), strict=True))
            last = _Row(federated, alone, gain, whole)
        table.add_row("mean", *last.cells(self._measure)[: len(headings) - 1])
        return _apart(table)

    def remarks(self) -> Iterator[str]:
        """The lines below the table; some are empty."""
        some, every = len(self._both), len(self._own)
        if self._compared and some not in (0, every):
            which = f"{some} of {every} peers have both figures, and are in the means"
            yield f"{which}; federated, mean of all: {decimals(_mean(self._own))}"
        if self._best:
            yield self._kept()
        if line := headline(self._worth):
            together = "" if self._shared else members_text(dict(enumerate(self._worth)), self._members)
            yield f"{line}; {together}" if together else line
        worth = [one for one in self._worth if one is not None]
        if left := [one for one in worth if one.verdict is None and one.why is not None]:
            which = "no comparison" + self._some(left)
            unfinished = any(one.is_unfinished for one in left)
            later = f"; dpeer worth {shlex.quote(str(self._out))} makes it later" if unfinished else ""
            yield f"{which} with {LOCAL_ONLY}: {left[0].why}{later}"
        if left := [one for one in worth if one.no_blend is not None]:
            yield f"no blend{self._some(left)}: {left[0].no_blend}"
        than = "always the most frequent class" if self._measure == "accuracy" else "always the mean"
        for ranking, words in ((False, ""), (True, ", at a threshold that hides what is learned (see AUROC)")):
            useless = [
                str(rank) for rank, one in enumerate(self._worth)
                if one is not None and one.is_useless and ranks_rows(one.auroc) == ranking
            ]  # fmt: skip
            yield f"no better than {than}{words}: rank {', '.join(useless[:_MANY])}" if useless else ""
        mixed = self._summary[f"{self._measure}_mixed"]
        if mixed != [row.federated for row in self._rows] and self._summary["body_parameters"]:
            when = "after the mixing of the kept rounds" if self._best else "after the last mixing"
            yield f"{when}: mean {self._name} {decimals(_mean(mixed))}"
        if (training := self._summary.get("training_accuracy_mean")) is not None:
            gap = self._summary["generalization_gap_mean"]
            yield f"training accuracy of the kept models: mean {decimals(training)}, generalization gap {gap:+.4f}"

    def _some(self, left: Sequence[Effect]) -> str:
        return "" if len(left) == len(self._worth) else f" of {len(left)} of {len(self._worth)} peers"

    def _kept(self) -> str:
        """Which models are kept, and how they do where some of them are no federated ones."""
        points, rounds = self._points, [one + 1 for one in self._rounds if one is not None]
        counts = [f"{points.count(point)} {words}" for point, words in _POINTS.items() if point in points]
        between = f", of round {min(rounds)}" + (f" to {max(rounds)}" if len({*rounds}) > 1 else "") if rounds else ""
        if alone := [str(rank) for rank, point in enumerate(points) if point == "alone"]:
            counts[-1] += f" (rank {', '.join(alone[:_MANY])})"
        if self.keeps_others:
            between += f"; mean {self._name} of the kept models {decimals(_mean(self._summary[self._measure]))}"
        return f"kept by validation loss: {', '.join(counts)}{between}"


def _apart(table: Table) -> Table:
    """The same with a line above its last row."""
    table.rows[-2].end_section = True
    return table


def _facts(summary: Mapping[str, Any], out: Path) -> list[str]:
    extras = summary.get("extras") or {}
    beside = f" and {sum(extras.values()):,} values beside them ({', '.join(extras)})" if extras else ""
    facts = [
        f"{summary['body_parameters']:,} parameters gossiped{beside}, {summary['head_parameters']:,} kept at home",
        f"{size(summary['bytes_sent'])} sent in all, {summary['wall_seconds']:.1f} s",
    ]
    distance = summary["consensus_distance"]
    if distance is not None and math.isfinite(distance):
        facts.append(f"consensus distance {distance:.4f}")
    if summary.get("privacy") is not None:
        facts.append(privacy_line(summary["privacy"]))
    for kind, ranks in (summary.get("warnings") or {}).items():
        which = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks[:_MANY]))}"
        facts.append(f"warned while it ran ({kind}): {which}, see log.jsonl")
    for rank, lost in summary["lost"].items():
        facts.append(f"rank {rank} lost " + ", ".join(f"rank {other} ({why})" for other, why in lost.items()))
    facts.append(f"summary {out / 'summary.json'}; per peer {out}/rank-R/: metrics.jsonl, model.safetensors, log.jsonl")
    return facts


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
