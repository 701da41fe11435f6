"""The final table of a run of all peers."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table

from dpeer.results.effect import (
    LOCAL_ONLY,
    NOTHING_RECEIVED,
    Effect,
    effects_by_rank,
    headline,
    interval_text,
    verdict_word,
)
from dpeer.results.effect_statistics import pooled, pooled_text
from dpeer.results.figures import NAMES, called, in_words
from dpeer.results.privacy_words import privacy_line
from dpeer.results.training_alerts import ranks_rows
from dpeer.results.units import decimals, size

_WIDE = 94
"""Columns of a terminal that the table needs with intervals and with each peer's round; these are in summary.json."""

_MANY, _WORST = 40, 10
"""With more peers than that, only so many are printed: those that did worst."""


_COLUMNS = 5
"""Metrics of a task's own in the table: more do not fit 80 columns; summary.json has all."""

_USUAL = ("balanced_accuracy", "auroc", "sensitivity", "specificity")
_VALUES = ("mae", "rmse", "r2")


def show(console: Console, summary: Mapping[str, Any], out: Path, baseline: Mapping[str, Any] | None) -> None:
    """Print how the peers did, beside a baseline if one was trained, and where the files are.

    Args:
        console: Where it is printed.
        summary: The run's, with the effect of federating if that was measured.
        out: The run's folder.
        baseline: The summary of the same peers with another algorithm.
    """
    if all(rounds is None for rounds in summary["completed_rounds"]):
        return  # no peer left a result
    # A task may have no accuracy (a regression, say); a loss every task has.
    measure = "accuracy" if summary["accuracy_mean"] is not None else "test_loss"
    settings = summary.get("settings") or {}
    kept_rounds = zip(summary["kept_round"], summary["completed_rounds"], strict=True)
    # Rank 0 may have too few samples to choose by, and keep its last model.
    best = settings.get("keep") == "best" or any(one is not None and one + 1 != last for one, last in kept_rounds)
    which = "best of" if best else "after"
    by = " by validation loss" if best else ""
    points = [point for point in summary["kept_point"] if point is not None]
    done = points.count("finished")
    finished = f", {'' if done == len(points) else f'{done} of {len(points)} '}finished at home" if done else ""
    console.print(
        f"{summary['algorithm']} {which} {summary['rounds']} rounds{by}{finished}: {measure.replace('_', ' ')} on each "
        "peer's own test data",
        highlight=False,
        soft_wrap=True,
    )
    values, mixed = summary[measure], summary[f"{measure}_mixed"]
    apart = mixed != values and bool(summary["body_parameters"])
    worth = effects_by_rank(summary.get("worth")) or (None,) * len(values)
    shared = settings.get("test_split") == "shared"
    other = _BaselineColumns(measure, values, worth, baseline, shared=shared)
    by_peer = best and (console.width >= _WIDE or not other.columns)
    table = Table()
    table.add_column("rank", justify="right")
    table.add_column(measure.replace("_", " "), justify="right", no_wrap=True)
    if by_peer:
        table.add_column("kept", justify="right", no_wrap=True)
    for name in other.columns:
        table.add_column(name, justify="right", no_wrap=True)
    shown = _shown(values, higher_is_better=measure == "accuracy")
    for rank in shown:
        kept = summary["kept_round"][rank]
        rounds = ("-" if kept is None else f"{kept + 1}, {summary['kept_point'][rank] or 'mixed'}",) if by_peer else ()
        table.add_row(str(rank), decimals(values[rank]), *rounds, *other.cells(rank, values[rank]))
    blank = ("",) * len(other.columns)
    if len(values) > _MANY:
        table.add_row("...", f"{len(values) - _WORST} better", *("",) * by_peer, *blank)
    table.add_section()
    mean = _mean(values)
    table.add_row("mean", decimals(mean), *("",) * by_peer, *other.mean())
    console.print(table)
    if best:
        console.print(_kept(summary), highlight=False, soft_wrap=True)
    if line := headline(worth):
        every = "" if shared else pooled_text(worth)
        console.print(f"{line}; {every}" if every else line, highlight=False, markup=False, soft_wrap=True)
    if line := _missing(worth, out):
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
    _print_metrics(console, summary, shown)
    for fact in _facts(summary, out):
        console.print(fact, highlight=False, markup=False, soft_wrap=True)


def _print_metrics(console: Console, summary: Mapping[str, Any], ranks: Sequence[int]) -> None:
    """Print the metrics of these ranks besides accuracy, and their means over all peers."""
    by_rank: Mapping[str, Sequence[float | None]] = summary.get("metrics") or {}
    mean: Mapping[str, float | None] = summary.get("metrics_mean") or {}
    own = [name for name in by_rank if name not in NAMES or name in _VALUES]
    if own:
        _print_by_rank(console, own, by_rank, mean, ranks)
    if words := in_words({name: mean[name] for name in _USUAL if name in mean}):
        console.print(f"mean over the peers: {words}", highlight=False, markup=False, soft_wrap=True)


def _print_by_rank(
    console: Console,
    names: Sequence[str],
    by_rank: Mapping[str, Sequence[float | None]],
    mean: Mapping[str, float | None],
    ranks: Sequence[int],
) -> None:
    shown = names[:_COLUMNS]
    table = Table()
    for name in ("rank", *map(called, shown)):
        table.add_column(name, justify="right")
    for rank in ranks:
        table.add_row(str(rank), *(decimals(by_rank[name][rank]) for name in shown))
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


_POINTS = {"trained": "before mixing", "mixed": "after mixing", "finished": "finished", "alone": LOCAL_ONLY}


def _kept(summary: Mapping[str, Any]) -> str:
    points, rounds = summary["kept_point"], [one + 1 for one in summary["kept_round"] if one is not None]
    counts = [f"{points.count(point)} {words}" for point, words in _POINTS.items() if point in points]
    if alone := [str(rank) for rank, point in enumerate(points) if point == "alone"]:
        counts[-1] += f" (rank {', '.join(alone[:_MANY])}; gains are of the federated models all the same)"
    between = "" if not rounds else f", of round {min(rounds)}" + (f" to {max(rounds)}" if len({*rounds}) > 1 else "")
    return f"kept by validation loss: {', '.join(counts)}{between}"


def _is_useless(worth: Effect | None, *, ranking: bool) -> bool:
    """Whether a constant answer does as well as a model that tells rows apart by its scores, or does not."""
    return worth is not None and worth.is_useless and ranks_rows(worth.auroc) == ranking


class _BaselineColumns:
    """The columns of the baseline beside the run's own results.

    Args:
        measure: The measure that the table shows.
        own: The measure of each peer, by rank.
        worth: The effect of federating on each peer; None where it was not measured.
        baseline: The summary of the same peers with another algorithm; None for local-only models.
        shared: Whether peers may have the same test rows: then these are no rows more when put together.
    """

    def __init__(
        self,
        measure: str,
        own: Sequence[float | None],
        worth: Sequence[Effect | None],
        baseline: Mapping[str, Any] | None,
        *,
        shared: bool,
    ) -> None:
        self._measure, self._worth, self._own = measure, worth, own
        self._compared_rows = any(one is not None and one.gain is not None for one in worth)
        if baseline:
            self._name, self._values = str(baseline["algorithm"]), list(baseline[measure])
        else:
            self._name = LOCAL_ONLY
            self._values = [one.alone if one and one.verdict and one.measure == measure else None for one in worth]
            self._values += [None] * (len(own) - len(self._values))
        self._shown = baseline is not None or any(value is not None for value in self._values)
        self._all = None if shared else pooled(worth)
        self._compared = sum(one is not None and one.verdict is not None for one in worth)
        self._difference = "gain" if measure == "accuracy" else "difference"

    @property
    def columns(self) -> list[str]:
        """The headings; none without a comparison."""
        if not self._shown:
            return []
        return [self._name, self._difference, *(["95 % interval", "verdict"] if self._compared_rows else [])]

    def cells(self, rank: int, value: float | None) -> list[str]:
        """A peer's row."""
        if not self._shown:
            return []
        difference = self._difference_of(rank, value)
        gain = "-" if difference is None else decimals(difference, "+")
        other = self._values[rank] if self._compares(rank) else None
        return [decimals(other), gain, *(self._comparison(self._worth[rank]) if self._compared_rows else [])]

    def _difference_of(self, rank: int, value: float | None) -> float | None:
        """How much higher the federated model's figure is; the kept model may be the other one."""
        one, other = self._worth[rank], self._values[rank]
        if not self._compares(rank):
            return None
        if one is not None and one.gain is not None and one.measure == self._measure:
            return (one.gain if self._measure == "accuracy" else -one.gain) + 0.0  # 0.0 makes 0.0 of -0.0
        return None if value is None or other is None else value - other

    def _compares(self, rank: int) -> bool:
        """Whether the peer has mixed a body: else two figures beside each other would read as a gain."""
        one = self._worth[rank]
        return one is None or one.why != NOTHING_RECEIVED

    def _comparison(self, one: Effect | None) -> list[str]:
        if one is None or one.gain is None:
            return ["-", "-"]
        if one.measure != self._measure:  # the accuracy of single rows is not known
            return ["-", f"{verdict_word(one)} (by loss)"]
        if self._measure == "accuracy":
            return [interval_text(one), verdict_word(one)]
        # The column beside it says how much higher the loss is; a gain is how much lower.
        low, high = (None if end is None else -end + 0.0 for end in (one.high, one.low))  # 0.0 makes 0.0 of -0.0
        turned = replace(one, low=low, high=high)
        return [interval_text(turned), verdict_word(one)]

    def mean(self) -> list[str]:
        """The row of the mean, over the peers that have both figures."""
        if not self._shown:
            return []
        own = enumerate(self._own)
        gains = {rank: found for rank, value in own if (found := self._difference_of(rank, value)) is not None}
        others = [other for rank, other in enumerate(self._values) if rank in gains]
        gain = decimals(fmean(gains.values()), "+") if gains else "-"
        whole = self._all if self._all is not None and len(gains) == self._compared else None
        return [decimals(_mean(others)), gain, *(self._comparison(whole) if self._compared_rows else [])]


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
