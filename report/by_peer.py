"""Panels of dots: every peer's gain, every peer's result in rows and by rank, and each run's final disagreement."""

from __future__ import annotations

from collections import Counter
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from dpeer.report.facets import LINES, Report, peer_name
from dpeer.report.style import (
    COLORS,
    WIDE,
    Panel,
    clip,
    legend,
    log_ticks,
    look,
    name_rows,
    new_figure,
    tidy,
)
from dpeer.results.effect import Effect, Verdict, headline, verdict_word
from dpeer.results.effect_statistics import pooled_text
from dpeer.results.groups import DISTANCE, Group, distances, settled
from dpeer.results.reading import Run

_ROWS = 40
"""The most rows of a picture."""

_RANKS = 40

_JOINED = 3
"""The most runs whose dots of a rank are joined by a line: of more, lines are a tangle."""

_COLORS: dict[Verdict | None, str] = {"improved": COLORS[2], "worse": COLORS[1], "inconclusive": "#777777"}

_HOLDING = ("task", "task_options", "partition", "size", "seed", "seed_partition", "test_split", "validation")
"""Settings that decide which peer holds which data."""


def effects_of(run: Run) -> dict[int, Effect]:
    """The effect of federating on each peer, where it was measured."""
    of_run = dict(enumerate(run.summary.worth)) if run.summary is not None else {}
    own = {rank: peer.summary.worth for rank, peer in run.peers.items() if peer.summary is not None}
    found = own | {rank: effect for rank, effect in of_run.items() if effect is not None}
    return {rank: one for rank, one in sorted(found.items()) if one is not None and one.verdict is not None}


def headlines(groups: tuple[Group, ...]) -> list[str]:
    """A sentence for each group in which peers were compared with their baselines."""
    found = []
    for group in groups:
        effects = [effect for run in group.runs for effect in effects_of(run).values()]
        if line := headline(effects):
            if len(group.runs) == 1 and group.runs[0].settings.get("test_split") != "shared":
                line = "; ".join(filter(None, (line, pooled_text(effects))))
            found.append(f"{group.name}: {line}" if len(groups) > 1 else line)
    return found


def gains(report: Report) -> Panel | None:
    """Every peer's gain with its interval, the highest at the top; None where no peer was compared."""
    groups = report.groups
    several = sum(any(effects_of(run) for run in group.runs) for group in groups) > 1
    rows = [
        (effect, peer_name(group, run, rank, several=several))
        for group in groups for run in group.runs for rank, effect in effects_of(run).items()
        if effect.gain is not None and effect.low is not None and effect.high is not None
    ]  # fmt: skip
    if not rows:
        return None
    of_accuracy = Counter(effect.of_accuracy for effect, _ in rows).most_common(1)[0][0]
    rows = [row for row in rows if row[0].of_accuracy == of_accuracy]
    shown = sorted(rows, key=lambda row: row[0].gain or 0.0, reverse=True)[-_ROWS:]
    figure = new_figure(1.5 + max(0.3 * len(shown), 0.9))
    axes = figure.subplots()
    axes.axvline(0.0, color="black", lw=1.0)
    labelled: set[str] = set()
    for row, (effect, _) in enumerate(shown):
        color, word = _COLORS[effect.verdict], verdict_word(effect)
        low, high, gain = (value for value in (effect.low, effect.high, effect.gain) if value is not None)
        axes.plot([low, high], [row, row], color=color, lw=2.4, alpha=0.6, solid_capstyle="butt")
        label = None if word in labelled else word
        axes.plot([gain], [row], ls="", marker="o", ms=6.5, color=color, label=label)
        labelled.add(word)
    name_rows(axes, [name for _, name in shown])
    axes.set_xlabel("gain in accuracy (share correct)" if of_accuracy else "gain: how much lower the loss is")
    figure.legend(loc="outside lower center", ncols=len(labelled), frameon=False)
    caption = (
        "How much better a peer's federated model does on its own rows than its local-only baseline: right of the line "
        "federating is better. Bars are 95 % intervals over the peer's rows. "
        + (f"The {_ROWS} lowest of {len(rows)}. " if len(rows) > _ROWS else "")
        + "It is inconclusive where the interval holds zero, where the peer has fewer than ten rows, or where too few "
        "of them differ."
    )
    alt = "Dots of every peer's gain with intervals. " + " ".join(
        f"{name}: {effect.gain:+.4f}, {verdict_word(effect)}." for effect, name in shown
    )
    return Panel("Effect of federating", caption, alt, figure)


def results_of_peers(report: Report) -> Panel | None:
    """Every peer's result as a dot, with a row for each group; None where `results_by_rank` or the table shows it."""
    measure, groups = report.measure, report.groups
    if len(groups) == 1 and (len(groups[0].ranks) == 1 or _order_of_ranks(report)):
        return None
    title = f"{measure.name.capitalize()} of every peer at the end"
    rows = [(group, [run.finals(measure.key) for run in group.runs]) for group in groups]
    rows = [(group, found) for group, found in rows if any(found)]
    if not rows:
        article = "an" if measure.name[0] in "aeiou" else "a"
        return Panel(title, f"No peer of these runs has {article} {measure.name}.")
    shown = sorted(rows, key=lambda row: _mean(row[1]), reverse=measure.most_is_best)[:_ROWS]
    figure = new_figure(1.3 + max(0.38 * len(shown), 0.9))
    axes = figure.subplots()
    generator = np.random.default_rng(0)
    for row, (group, found) in enumerate(shown):
        color = COLORS[(group.number - 1) % len(COLORS)] if len(groups) <= LINES else COLORS[0]
        values = np.array([value for each in found for value in each.values()])
        lifted = row + generator.uniform(-0.22, 0.22, len(values))
        pale = max(0.25, min(0.75, 18 / len(values)))
        axes.plot(values, lifted, ls="", marker="o", ms=5.5, color=color, mec="none", alpha=pale, clip_on=False)
        axes.plot([_mean(found)] * 2, [row - 0.4, row + 0.4], color="black", lw=2.2)
    name_rows(axes, [group.name for group, _ in shown])
    axes.set_xlabel(measure.axis)
    caption = (
        "A dot is a peer on its own data, with the model that was kept; the black bar is the mean. "
        + ("All seeds' peers are shown. " if any(len(group.runs) > 1 for group, _ in shown) else "")
        + ("The best mean is at the top. " if len(groups) > 1 else "")
        + (f"The {_ROWS} best of {len(rows)}; the table has all. " if len(rows) > _ROWS else "")
    )
    alt = f"Dots of every peer's {measure.name}, a row for each group. " + " ".join(
        f"{group.label}: mean {_mean(found):.3f}." for group, found in shown
    )
    return Panel(title, caption, alt, figure)


def results_by_rank(report: Report) -> Panel | None:
    """The peers' results by rank; None where a rank is not the same peer in all runs, or peers are too many."""
    measure, groups, order = report.measure, report.groups, _order_of_ranks(report)
    if not order:
        return None
    found = {group.number: group.runs[0].finals(measure.key) for group in groups}
    lead = _lead(groups, found)
    figure = new_figure(3.6 + 0.25 * len(groups))
    axes = figure.subplots()
    # Side by side: where two did equally well, one would hide the other.
    step = min(0.16, 0.7 / len(groups))
    beside = {group.number: (place - (len(groups) - 1) / 2) * step for place, group in enumerate(groups)}
    for place, rank in enumerate(order if len(groups) <= _JOINED else ()):
        there = [(place + beside[number], each[rank]) for number, each in found.items() if rank in each]
        axes.plot(*zip(*there, strict=True), color="#999999", lw=1.1, zorder=1)
    for group in groups:
        own, shift = found[group.number], beside[group.number]
        there = [(place + shift, own[rank]) for place, rank in enumerate(order) if rank in own]
        if there:
            axes.plot(*zip(*there, strict=True), **{**look(group.number - 1), "ls": "", "ms": 7, "alpha": 0.85})
    axes.set_xticks(range(len(order)), [str(rank) for rank in order], fontsize=10 if len(order) <= 24 else 9)
    if len(order) > 24:
        axes.tick_params(axis="x", rotation=90)
    tidy(axes)
    axes.set_xlabel("rank of the peer, " + (f"sorted by {clip(lead.label, 40)}" if len(groups) > 1 else "sorted"))
    axes.set_ylabel(measure.axis)
    if len(groups) > 1:
        legend(figure, {group.number - 1: group.name for group in groups}, [])
    else:
        dashes: dict[str, Any] = {"color": "black", "lw": 1.2, "ls": (0, (4, 2))}
        axes.axhline(fmean(found[lead.number].values()), **dashes, zorder=1)
        legend(figure, {}, [Line2D([], [], **dashes, label="mean over peers")])
    caption = f"Every peer on its own data, with the model that was kept, by rank: from the lowest {measure.name} "
    caption += f"in {lead.label} on. " if len(groups) > 1 else "on. "
    if len(groups) > 1:
        caption += "The runs divide the data alike, so a rank stands for the same data in all of them."
    worst = [(group, *measure.worst(found[group.number])) for group in groups if found[group.number]]
    alt = f"Dots of {measure.name} by rank. " + " ".join(
        f"{group.label}: worst is rank {rank} with {value:.3f}." for group, rank, value in worst
    )
    return Panel(f"{measure.name.capitalize()} by rank", caption, alt, figure)


def _order_of_ranks(report: Report) -> list[int]:
    """The ranks by their results in the group with the most; empty where ranks are not comparable, or too many."""
    groups = report.groups
    if len(groups) > LINES or any(len(group.runs) > 1 for group in groups) or groups[0].size > _RANKS:
        return []
    if len({tuple(str(group.runs[0].settings.get(key)) for key in _HOLDING) for group in groups}) > 1:
        return []
    if all(len(group.ranks) < 2 for group in groups):
        return []
    found = {group.number: group.runs[0].finals(report.measure.key) for group in groups}
    first = found[_lead(groups, found).number]
    others = {rank for values in found.values() for rank in values} - first.keys()
    return [*sorted(first, key=lambda rank: (first[rank], rank)), *sorted(others)]


def _lead(groups: tuple[Group, ...], found: dict[int, dict[int, float]]) -> Group:
    """The group with the most results; the first of several."""
    return max(groups, key=lambda group: len(found[group.number]))


def _mean(found: list[dict[int, float]]) -> float:
    return fmean(fmean(values.values()) for values in found if values)


def final_disagreement(report: Report) -> Panel:
    """Consensus distance at the end."""
    title, groups = "Disagreement at the end", report.groups
    rows = [(group, found) for group in groups if (found := distances(group))]
    if not rows:
        partial = any(group.partial for group in groups)
        why = "it takes the files of all peers" if partial else "nothing is shared, or they have not ended"
        return Panel(title, f"These runs have no {DISTANCE}: {why}.")
    furthest = max(value for _, found in rows for value in found)
    rows = [(group, [settled(value, furthest) for value in found]) for group, found in rows]
    if furthest < 1e-9:
        return Panel(title, f"The peers' bodies are equal at the end: their {DISTANCE} is 0.")
    shown = sorted(rows, key=lambda row: fmean(row[1]))[:_ROWS]
    figure = new_figure(1.2 + max(0.38 * len(shown), 0.7))
    axes = figure.subplots()
    for row, (group, found) in enumerate(shown):
        style = group.number - 1 if len(groups) <= LINES else 0
        axes.plot([0.0, fmean(found)], [row, row], color="#bbbbbb", lw=1.2, zorder=1)
        axes.plot(found, [row] * len(found), **{**look(style), "ls": "", "ms": 6, "alpha": 0.7, "clip_on": False})
        if len(found) > 1:
            axes.plot([fmean(found)] * 2, [row - 0.32, row + 0.32], color="black", lw=2.2)
    values = [value for _, found in shown for value in found]
    if min(values) > 0 and max(values) / min(values) > WIDE:
        axes.set_xscale("log")
        log_ticks(axes.xaxis)
    else:
        axes.set_xlim(0.0, max(values) * 1.08 or 1.0)
    name_rows(axes, [group.name for group, _ in shown])
    axes.set_xlabel(f"{DISTANCE} (in the parameters' unit)")
    caption = (
        "How far the peers' bodies lie from their mean: the root of the mean square of their distances, after the last "
        "mixing; 0 is full agreement. Bodies of different models or algorithms are of different lengths, so compare "
        "like with like. "
        + ("A marker is a seed, the black bar their mean. " if any(len(found) > 1 for _, found in shown) else "")
    )
    if missing := [group.label for group in groups if not distances(group)]:
        more = ", ..." if len(missing) > 8 else ""
        caption += f"Not measured, or nothing is shared: {', '.join(missing[:8])}{more}. "
    if len(rows) > _ROWS:
        caption += f"The {_ROWS} lowest of {len(rows)}; the table has all."
    alt = "Markers of the final consensus distance. " + " ".join(f"{g.label}: {fmean(f):.3g}." for g, f in shown)
    return Panel(title, caption, alt, figure)
