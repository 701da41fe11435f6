"""The final table of a run of all peers."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

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

_KEPT, _INTERVAL = "kept", "95 % interval"
"""Columns that are left out where the terminal is too narrow, in this order: summary.json has them."""

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
    console.print(run.table(console.width))
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
        self._federated = [
            kept if point not in _NOT_FEDERATED else one.joined if one and one.measure == self._measure else None
            for kept, point, one in zip(summary[self._measure], self._points, self._worth, strict=True)
        ]
        self._alone = [
            one.alone if one and one.verdict and one.measure == self._measure else None for one in self._worth
        ]
        self._compared = any(value is not None for value in self._alone)
        self._members = read_members(rank_folders(out).values()) or range(len(self._federated))

    @property
    def keeps_others(self) -> bool:
        """Whether a peer keeps another model than the federated one."""
        return bool(_NOT_FEDERATED & {*self._points})

    @cached_property
    def shown(self) -> list[int]:
        """The ranks to print: all, or where they are many those that did worst."""
        ranks = list(range(len(self._federated)))
        if len(ranks) <= _MANY:
            return ranks
        sign = 1 if self._measure == "accuracy" else -1
        known = [-math.inf if value is None else sign * value for value in self._federated]
        return sorted(sorted(ranks, key=lambda rank: known[rank])[:_WORST])

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

    def table(self, width: int) -> Table:
        """The table with as many columns as fit the width; the last row is apart from the others."""
        headings = ["rank", self._name]
        if self._compared:
            headings = ["rank", "federated", LOCAL_ONLY, "gain", _INTERVAL, "verdict"]
        rows = [[str(rank), *self._cells(rank)] for rank in self.shown]
        if self._best:
            headings.append(_KEPT)
            for rank, row in zip(self.shown, rows, strict=True):
                row.append(self._kept_cell(rank))
        if len(self._federated) > _MANY:
            rows.append(["...", f"{len(self._federated) - _WORST} better"])
        rows.append(["mean", *self._mean_cells()])
        cells = {name: [row[place] if place < len(row) else "" for row in rows] for place, name in enumerate(headings)}
        # A verdict of two words may take two lines.
        widths = {
            name: max(len(part) for one in (name, *found) for part in (one.split(" ") if name == "verdict" else [one]))
            for name, found in cells.items()
        }
        for name in (_KEPT, _INTERVAL):
            if name in cells and sum(widths[one] + 3 for one in cells) + 1 > width:
                del cells[name]
        table = Table()
        for name in cells:
            table.add_column(name, justify="right", no_wrap=name != "verdict")
        for line in zip(*cells.values(), strict=True):
            table.add_row(*line)
        return _apart(table)

    def _cells(self, rank: int) -> list[str]:
        """A peer's row."""
        own = decimals(self._federated[rank])
        if not self._compared:
            return [own]
        return [own, decimals(self._alone[rank]), decimals(self._gain(rank), "+"), *self._of_rows(self._worth[rank])]

    def _gain(self, rank: int) -> float | None:
        """How much better the federated model's figure is, where the row has both; of a loss, how much lower."""
        one = self._worth[rank]
        return None if one is None or None in (self._federated[rank], self._alone[rank]) else one.gain

    def _of_rows(self, one: Effect | None) -> list[str]:
        if one is None or one.gain is None:
            return ["-", "-"]
        if one.measure != self._measure:  # the accuracy of single rows is not known
            return ["-", f"{verdict_word(one)} (by loss)"]
        return [interval_text(one), verdict_word(one)]

    def _kept_cell(self, rank: int) -> str:
        """The kept model's round and point."""
        number, point = self._rounds[rank], self._points[rank]
        return "-" if number is None else f"{number + 1}, {LOCAL_ONLY if point == 'alone' else point or 'mixed'}"

    @cached_property
    def _own(self) -> list[float]:
        """The figures of the members' federated models."""
        return [one for rank, one in enumerate(self._federated) if rank in self._members and one is not None]

    @cached_property
    def _gains(self) -> dict[int, float]:
        """The gains of the members that have both figures."""
        every = {rank: self._gain(rank) for rank in range(len(self._federated)) if rank in self._members}
        return {rank: gain for rank, gain in every.items() if gain is not None}

    def _mean_cells(self) -> list[str]:
        """The row of the mean over the members that have both figures, or over all if none has."""
        if not self._compared:
            return [decimals(_mean(self._own))]
        ranks = [*self._gains] or [rank for rank in range(len(self._alone)) if rank in self._members]
        means = [_mean([values[rank] for rank in ranks]) for values in (self._federated, self._alone)]
        worth = dict(enumerate(self._worth))
        # Where peers have the same rows, they have no verdict together.
        whole = None if self._shared else pooled([worth.get(rank) for rank in self._members])
        return [*map(decimals, means), decimals(_mean([*self._gains.values()]), "+"), *self._of_rows(whole)]

    def remarks(self) -> Iterator[str]:
        """The lines below the table; some are empty."""
        some, every = len(self._gains), len(self._own)
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
        if mixed != self._federated and self._summary["body_parameters"]:
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
