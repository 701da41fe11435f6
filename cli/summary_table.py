"""The final table of a run of all peers."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
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


def show(console: Console, summary: Mapping[str, Any], out: Path) -> None:
    """Print how the peers did, beside their local-only models if those were trained, and where the files are."""
    if all(rounds is None for rounds in summary["completed_rounds"]):
        return  # no peer left a result
    worth = effects_by_rank(summary.get("worth")) or (None,) * len(summary["kept_point"])
    measure = _measure(summary, worth)
    settings = summary.get("settings") or {}
    kept_rounds = zip(summary["kept_round"], summary["completed_rounds"], strict=True)
    # Rank 0 may have too few samples to choose by, and keep its last model.
    best = settings.get("keep") in ("best", "blend") or any(
        one is not None and one + 1 != last for one, last in kept_rounds
    )
    which = "best of" if best else "after"
    by = " by validation loss" if best else ""
    points = [point for point in summary["kept_point"] if point is not None]
    done = points.count("finished")
    some = "" if done == len(points) else f"{done} of {len(points)} "
    finished = f", {some}finished at home" if done and not best else ""  # of the best, the line on the kept has it
    console.print(
        f"{summary['algorithm']} {which} {summary['rounds']} rounds{by}{finished}: {measure.replace('_', ' ')} on each "
        f"peer's own test data{'' if measure == 'accuracy' else ' (lower is better)'}",
        highlight=False,
        soft_wrap=True,
    )
    federated = _federated(summary, worth, measure)
    mixed = summary[f"{measure}_mixed"]
    apart = mixed != federated and bool(summary["body_parameters"])
    shared = settings.get("test_split") == "shared"
    members = read_members(rank_folders(out).values()) or range(len(federated))
    comparison = _Comparison(measure, federated, worth, members)
    shown = _shown(federated, higher_is_better=measure == "accuracy")
    rows = [[str(rank), *comparison.cells(rank)] for rank in shown]
    if best:
        for rank, row in zip(shown, rows, strict=True):
            row.append(_kept_cell(summary["kept_round"][rank], summary["kept_point"][rank]))
    if len(federated) > _MANY:
        rows.append(["...", f"{len(federated) - _WORST} better"])
    mean, of_some = comparison.mean(together=not shared)
    rows.append(["mean", *mean])
    console.print(_fitting(console, ["rank", *comparison.columns, *([_KEPT] if best else [])], rows))
    if of_some:
        console.print(of_some, highlight=False, soft_wrap=True)
    if best:
        console.print(_kept(summary, measure), highlight=False, soft_wrap=True)
    if line := headline(worth):
        every = "" if shared else members_text(dict(enumerate(worth)), members)
        console.print(f"{line}; {every}" if every else line, highlight=False, markup=False, soft_wrap=True)
    for line in filter(None, (_missing(worth, out), _not_blended(worth))):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    than = "always the most frequent class" if measure == "accuracy" else "always the mean"
    for ranking, words in ((False, ""), (True, ", at a threshold that hides what is learned (see AUROC)")):
        useless = [str(rank) for rank, one in enumerate(worth) if _is_useless(one, ranking=ranking)]
        if useless:
            line = f"no better than {than}{words}: rank {', '.join(useless[:_MANY])}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
    if apart:
        when = "after the mixing of the kept rounds" if best else "after the last mixing"
        console.print(f"{when}: mean {measure.replace('_', ' ')} {decimals(_mean(mixed))}", highlight=False)
    if (training := summary.get("training_accuracy_mean")) is not None:
        gap = summary["generalization_gap_mean"]
        of = f"training accuracy of the kept models: mean {decimals(training)}, generalization gap {gap:+.4f}"
        console.print(of, highlight=False, soft_wrap=True)
    _print_metrics(console, summary, shown, "kept models" if _NOT_FEDERATED & {*points} else "peers")
    for fact in _facts(summary, out):
        console.print(fact, highlight=False, markup=False, soft_wrap=True)


def _fitting(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table with as many columns as fit the terminal; the last row is apart from the others."""
    cells = {name: [row[place] if place < len(row) else "" for row in rows] for place, name in enumerate(headings)}
    # A verdict of two words may take two lines.
    widths = {
        name: max(len(part) for cell in (name, *found) for part in (cell.split(" ") if name == "verdict" else [cell]))
        for name, found in cells.items()
    }
    for name in (_KEPT, _INTERVAL):
        if name in cells and sum(widths[one] + 3 for one in cells) + 1 > console.width:
            del cells[name]
    table = Table()
    for name in cells:
        table.add_column(name, justify="right", no_wrap=name != "verdict")
    for number, row in enumerate(zip(*cells.values(), strict=True), start=1):
        table.add_row(*row, end_section=number == len(rows) - 1)
    return table


def _measure(summary: Mapping[str, Any], worth: Sequence[Effect | None]) -> str:
    """What the table shows: what the peers are compared by; else their accuracy, or a regression's loss."""
    compared = {one.measure for one in worth if one is not None and one.verdict is not None}
    if compared == {"test_loss"}:
        return "test_loss"
    return "accuracy" if summary["accuracy_mean"] is not None else "test_loss"


def _federated(summary: Mapping[str, Any], worth: Sequence[Effect | None], measure: str) -> list[float | None]:
    """The figure of each peer's federated model, also where the baseline is kept; None where it is not known."""

    def of_rank(kept: float | None, point: str | None, one: Effect | None) -> float | None:
        if point not in _NOT_FEDERATED:
            return kept
        return one.joined if one is not None and one.measure == measure else None

    return list(map(of_rank, summary[measure], summary["kept_point"], worth))


def _print_metrics(console: Console, summary: Mapping[str, Any], ranks: Sequence[int], models: str) -> None:
    """Print the metrics of these ranks' kept models besides accuracy, and their means over all peers."""
    by_rank: Mapping[str, Sequence[float | None]] = summary.get("metrics") or {}
    mean: Mapping[str, float | None] = summary.get("metrics_mean") or {}
    own = [name for name in by_rank if name not in NAMES or name in _VALUES]
    if own:
        if models != "peers":
            console.print(f"metrics of the {models}:", highlight=False)
        _print_by_rank(console, own, by_rank, mean, ranks)
    if words := in_words({name: mean[name] for name in _USUAL if name in mean}):
        console.print(f"mean over the {models}: {words}", highlight=False, markup=False, soft_wrap=True)


def _print_by_rank(
    console: Console,
    names: Sequence[str],
    by_rank: Mapping[str, Sequence[float | None]],
    mean: Mapping[str, float | None],
    ranks: Sequence[int],
) -> None:
    shown = names[:_COLUMNS]
    headings = dict.fromkeys(("rank", *map(called, shown)), "right")
    table = filled(Table(), headings, ((rank, *(decimals(by_rank[name][rank]) for name in shown)) for rank in ranks))
    table.add_section()
    table.add_row("mean", *(decimals(mean.get(name)) for name in shown))
    console.print(table)
    if len(names) > len(shown):
        more = ", ".join(names[_COLUMNS:])
        console.print(f"more metrics in summary.json: {more}", highlight=False, markup=False, soft_wrap=True)


def _missing(worth: Sequence[Effect | None], out: Path) -> str:
    """Why peers have not been compared with their baselines, and the command that does it; empty if all have been."""
    left = [one for one in worth if one is not None and one.verdict is None and one.why is not None]
    if not left:
        return ""
    which = "no comparison" if len(left) == len(worth) else f"no comparison of {len(left)} of {len(worth)} peers"
    later = f"; dpeer worth {shlex.quote(str(out))} makes it later" if any(one.is_unfinished for one in left) else ""
    return f"{which} with {LOCAL_ONLY}: {left[0].why}{later}"


_POINTS = {
    "trained": "before mixing",
    "mixed": "after mixing",
    "finished": "finished",
    "blend": f"blended with {LOCAL_ONLY}",
    "alone": LOCAL_ONLY,
}
_NOT_FEDERATED = {"blend", "alone"}
"""Points of kept models that are not the federated one, or not that alone."""


def _kept_cell(number: int | None, point: str | None) -> str:
    """The kept model's round and point."""
    return "-" if number is None else f"{number + 1}, {LOCAL_ONLY if point == 'alone' else point or 'mixed'}"


def _kept(summary: Mapping[str, Any], measure: str) -> str:
    """Which models are kept, and how they do where some of them are no federated ones."""
    points, rounds = summary["kept_point"], [one + 1 for one in summary["kept_round"] if one is not None]
    counts = [f"{points.count(point)} {words}" for point, words in _POINTS.items() if point in points]
    between = "" if not rounds else f", of round {min(rounds)}" + (f" to {max(rounds)}" if len({*rounds}) > 1 else "")
    if alone := [str(rank) for rank, point in enumerate(points) if point == "alone"]:
        counts[-1] += f" (rank {', '.join(alone[:_MANY])})"
    if _NOT_FEDERATED & {*points}:
        between += f"; mean {measure.replace('_', ' ')} of the kept models {decimals(_mean(summary[measure]))}"
    return f"kept by validation loss: {', '.join(counts)}{between}"


def _not_blended(worth: Sequence[Effect | None]) -> str:
    """Why peers keep no blend though one was asked for; empty if all do."""
    left = [one.no_blend for one in worth if one is not None and one.no_blend is not None]
    which = "" if len(left) == len(worth) else f" of {len(left)} of {len(worth)} peers"
    return f"no blend{which}: {left[0]}" if left else ""


def _is_useless(worth: Effect | None, *, ranking: bool) -> bool:
    """Whether a constant answer does as well as a model that tells rows apart by its scores, or does not."""
    return worth is not None and worth.is_useless and ranks_rows(worth.auroc) == ranking


class _Comparison:
    """The columns of a comparison: federated models, beside the local-only ones.

    Args:
        measure: The measure that the table shows.
        federated: The measure of each peer's federated model, by rank.
        worth: The effect of federating on each peer; None where it was not measured.
        members: The ranks in the last member list.
    """

    def __init__(
        self,
        measure: str,
        federated: Sequence[float | None],
        worth: Sequence[Effect | None],
        members: Sequence[int],
    ) -> None:
        self._members = members
        self._measure, self._worth, self._federated = measure, worth, federated
        self._values = [one.alone if one and one.verdict and one.measure == measure else None for one in worth]
        self.shown = any(value is not None for value in self._values)

    @property
    def columns(self) -> list[str]:
        """The headings."""
        if not self.shown:
            return [self._measure.replace("_", " ")]
        return ["federated", LOCAL_ONLY, "gain", _INTERVAL, "verdict"]

    def cells(self, rank: int) -> list[str]:
        """A peer's row."""
        own = decimals(self._federated[rank])
        if not self.shown:
            return [own]
        gain = decimals(self._gain_of(rank), "+")
        return [own, decimals(self._values[rank]), gain, *self._of_rows(self._worth[rank])]

    def _gain_of(self, rank: int) -> float | None:
        """How much better the federated model's figure is, where the row has both; of a loss, how much lower."""
        one = self._worth[rank]
        return None if one is None or None in (self._federated[rank], self._values[rank]) else one.gain

    def _of_rows(self, one: Effect | None) -> list[str]:
        if one is None or one.gain is None:
            return ["-", "-"]
        if one.measure != self._measure:  # the accuracy of single rows is not known
            return ["-", f"{verdict_word(one)} (by loss)"]
        return [interval_text(one), verdict_word(one)]

    def mean(self, *, together: bool) -> tuple[list[str], str]:
        """The row of the mean over the members that have both figures, and a line that says so where not all have.

        Args:
            together: Whether the peers' rows are different ones, so that all have one verdict.
        """
        own = [value for rank, value in enumerate(self._federated) if rank in self._members and value is not None]
        if not self.shown:
            return [decimals(_mean(own))], ""
        ranks = [rank for rank in range(len(self._values)) if rank in self._members]
        gains = {rank: gain for rank in ranks if (gain := self._gain_of(rank)) is not None}
        means = [_mean([values[rank] for rank in gains or ranks]) for values in (self._federated, self._values)]
        worth = dict(enumerate(self._worth))
        whole = pooled([worth.get(rank) for rank in self._members]) if together else None
        row = [*map(decimals, means), decimals(_mean([*gains.values()]), "+"), *self._of_rows(whole)]
        if len(gains) in (0, len(own)):
            return row, ""
        which = f"{len(gains)} of {len(own)} peers have both figures, and are in the means"
        return row, f"{which}; federated, mean of all: {decimals(_mean(own))}"


def _shown(values: Sequence[float | None], *, higher_is_better: bool) -> list[int]:
    """The ranks to print: all, or where they are many those that did worst."""
    ranks = list(range(len(values)))
    if len(values) <= _MANY:
        return ranks
    known = [-math.inf if value is None else value if higher_is_better else -value for value in values]
    return sorted(sorted(ranks, key=lambda rank: known[rank])[:_WORST])


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
