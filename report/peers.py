"""Pictures of each peer's result."""

from __future__ import annotations

from statistics import fmean

import numpy as np
from matplotlib.lines import Line2D

from dpeer.report.curves import Measure
from dpeer.report.groups import Group
from dpeer.report.panels import LINES
from dpeer.report.style import COLORS, Section, clip, legend, look, name_rows, new_figure, render, tidy

ROWS = 40
"""The most runs with a line of their own."""

_RANKS = 40

_JOINED = 3
"""The most runs whose dots of a rank are joined by a line: of more, lines are a tangle."""


def draw_spread(groups: tuple[Group, ...], measure: Measure) -> Section:
    """Draw every peer's result as a dot, with a row for each group."""
    name, title = "accuracy-per-peer", f"{measure.name.capitalize()} of every peer at the end"
    rows = [(group, [run.finals(measure.key) for run in group.runs]) for group in groups]
    rows = [(group, found) for group, found in rows if any(found)]
    if not rows:
        return Section(name, title, f"No peer of these runs has {_article(measure.name)}.")
    shown = sorted(rows, key=lambda row: _mean(row[1]), reverse=measure.most_is_best)[:ROWS]
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
    ranked = len(groups) > 1
    caption = (
        "A dot is a peer on its own data, with the model that was kept; the black bar is the mean. "
        + ("All seeds' peers are shown. " if any(len(group.runs) > 1 for group, _ in shown) else "")
        + ("The best mean is at the top. " if ranked else "")
        + (f"The {ROWS} best of {len(rows)}; the table has all. " if len(rows) > ROWS else "")
    )
    alt = f"Dots of every peer's {measure.name}, a row for each group. " + " ".join(
        f"{group.label}: mean {_mean(found):.3f}." for group, found in shown
    )
    return Section(name, title, caption.strip(), alt, render(figure))


def draw_ranks(groups: tuple[Group, ...], measure: Measure) -> Section | None:
    """Draw the peers' results by rank; None where a rank is not the same peer in all runs, or there are too many."""
    if len(groups) > LINES or any(len(group.runs) > 1 for group in groups) or groups[0].size > _RANKS:
        return None
    # Who holds which data follows from these.
    if len({tuple(str(group.runs[0].settings.get(key)) for key in _HOLDING) for group in groups}) > 1:
        return None
    if all(len(group.ranks) < 2 for group in groups):
        return None  # the table says it
    found = {group.number: group.runs[0].finals(measure.key) for group in groups}
    lead = max(groups, key=lambda group: len(found[group.number]))  # the first of those with the most
    first = found[lead.number]
    if not first:
        return None
    others = sorted({rank for values in found.values() for rank in values} - first.keys())
    order = [*sorted(first, key=lambda rank: (first[rank], rank)), *others]
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
        axes.axhline(fmean(first.values()), color="black", lw=1.2, ls=(0, (4, 2)), zorder=1)
        legend(figure, {}, [Line2D([], [], color="black", lw=1.2, ls=(0, (4, 2)), label="mean over peers")])
    caption = f"Every peer on its own data, with the model that was kept, by rank: from the lowest {measure.name} "
    caption += f"in {lead.label} on. " if len(groups) > 1 else "on. "
    if len(groups) > 1:
        caption += "The runs divide the data alike, so a rank stands for the same data in all of them."
    alt = f"Dots of {measure.name} by rank. " + " ".join(
        f"{group.label}: worst is rank {rank} with {value:.3f}."
        for group in groups
        if found[group.number]
        for rank, value in [measure.worst(found[group.number])]
    )
    return Section("accuracy-by-rank", f"{measure.name.capitalize()} by rank", caption.strip(), alt, render(figure))


_HOLDING = ("task", "task_options", "partition", "size", "seed", "seed_partition", "test_split", "validation")


def _mean(found: list[dict[int, float]]) -> float:
    return fmean(fmean(values.values()) for values in found if values)


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
