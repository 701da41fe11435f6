"""Pictures of bytes by round, and of the distance between the peers' bodies."""

from __future__ import annotations

import math
from statistics import fmean

from matplotlib.artist import Artist
from matplotlib.lines import Line2D

from dpeer.report.accuracy import MEGABYTE, every_round_alike
from dpeer.report.curves import distance_by_round, distances, sent_by_round, settled
from dpeer.report.groups import Group
from dpeer.report.panels import LINES, Arranged
from dpeer.report.peers import ROWS
from dpeer.report.style import (
    Section,
    label_outer,
    legend,
    log_ticks,
    look,
    name_rows,
    new_figure,
    panel_axes,
    render,
    whole_rounds,
)
from dpeer.results.units import size

_WIDE = 30.0
_DISTANCE = "consensus distance"


def draw_bytes(arranged: Arranged) -> Section:
    """Megabytes sent by round: the mean and the busiest peer's."""
    name, title = "bytes-by-round", "Megabytes sent"
    curves = {line.group.number: sent_by_round(line.group) for panel in arranged.panels for line in panel.lines}
    if not any(curve.rounds for curve in curves.values()):
        return Section(name, title, "These runs left no count of bytes by round.")
    if (same := every_round_alike(arranged)) is not None:
        rounds = next(iter(curves.values())).rounds[-1]
        said = f"A peer sends {size(round(same))} in each round, {size(round(same * rounds))} in {rounds} rounds."
        return Section(name, title, said if same else "These peers send nothing.")
    figure, grid = panel_axes(arranged)
    most = max(curve.rounds[-1] for curve in curves.values() if curve.rounds)
    uneven = False
    for axes, panel in zip(grid, arranged.panels, strict=True):
        for line in panel.lines:
            curve, style = curves[line.group.number], look(line.style)
            if not curve.rounds:
                continue
            step = max(1, len(curve.rounds) // 8)
            axes.plot(
                curve.rounds, [value / MEGABYTE for value in curve.mean], **style, markevery=(line.style % step, step)
            )
            if curve.high[-1] <= 1.01 * curve.mean[-1]:
                continue
            busiest = [value / MEGABYTE for value in curve.high]
            uneven = True
            axes.plot(curve.rounds, busiest, color=style["color"], lw=1.2, ls=(0, (1, 1.5)))
        whole_rounds(axes, 0, most)
        axes.set_ylim(bottom=0.0)
    label_outer(grid, "round", "MB sent per peer since the start")
    kinds: list[Artist] = [Line2D([], [], color="#444444", lw=1.7, label="mean over peers")]
    if uneven:
        kinds.append(Line2D([], [], color="#444444", lw=1.2, ls=(0, (1, 1.5)), label="busiest peer"))
    legend(figure, arranged.names, kinds)
    caption = (
        "What a peer has sent by the end of each round: the mean over the peers, and the one that has sent most by "
        "then. A run without the second line has peers that all send alike. A megabyte is 1,000,000 bytes. "
    )
    ends = [(line.name, curves[line.group.number]) for panel in arranged.panels for line in panel.lines]
    alt = "Lines of megabytes sent by round. " + " ".join(
        f"{label}: {curve.mean[-1] / MEGABYTE:.3g} MB a peer in the end." for label, curve in ends if curve.rounds
    )
    return Section(name, title, (caption + arranged.remark).strip(), alt, render(figure))


def draw_distances(groups: tuple[Group, ...]) -> Section:
    """Consensus distance at the end."""
    name, title = "disagreement", "Disagreement at the end"
    rows = [(group, found) for group in groups if (found := distances(group))]
    if not rows:
        return Section(name, title, f"These runs have no {_DISTANCE}: {_why_none(groups)}.")
    furthest = max(value for _, found in rows for value in found)
    rows = [(group, [settled(value, furthest) for value in found]) for group, found in rows]
    if furthest < 1e-9:
        return Section(name, title, f"The peers' bodies are equal at the end: their {_DISTANCE} is 0.")
    shown = sorted(rows, key=lambda row: fmean(row[1]))[:ROWS]
    figure = new_figure(1.2 + max(0.38 * len(shown), 0.7))
    axes = figure.subplots()
    for row, (group, found) in enumerate(shown):
        style = group.number - 1 if len(groups) <= LINES else 0
        axes.plot([0.0, fmean(found)], [row, row], color="#bbbbbb", lw=1.2, zorder=1)
        axes.plot(found, [row] * len(found), **{**look(style), "ls": "", "ms": 6, "alpha": 0.7, "clip_on": False})
        if len(found) > 1:
            axes.plot([fmean(found)] * 2, [row - 0.32, row + 0.32], color="black", lw=2.2)
    largest = max(value for _, found in shown for value in found)
    least = min(value for _, found in shown for value in found)
    if least > 0 and largest / least > _WIDE:
        axes.set_xscale("log")
        log_ticks(axes.xaxis)
    else:
        axes.set_xlim(0.0, largest * 1.08 or 1.0)
    name_rows(axes, [group.name for group, _ in shown])
    axes.set_xlabel(f"{_DISTANCE} (in the parameters' unit)")
    caption = (
        "How far the peers' bodies lie from their mean: the root of the mean square of their distances, after the last "
        "mixing; 0 is full agreement. Bodies of different models or algorithms are of different lengths, so compare "
        "like with like. "
        + ("A marker is a seed, the black bar their mean. " if any(len(found) > 1 for _, found in shown) else "")
    )
    missing = [group.label for group in groups if not distances(group)]
    if missing:
        caption += (
            f"Not measured, or nothing is shared: {', '.join(missing[:8])}{', ...' if len(missing) > 8 else ''}. "
        )
    if len(rows) > ROWS:
        caption += f"The {ROWS} lowest of {len(rows)}; the table has all."
    alt = "Markers of the final consensus distance. " + " ".join(f"{g.label}: {fmean(f):.3g}." for g, f in shown)
    return Section(name, title, caption.strip(), alt, render(figure))


def _why_none(groups: tuple[Group, ...]) -> str:
    if any(group.partial for group in groups):
        return "it takes the files of all peers"
    return "nothing is shared, or they have not ended"


def draw_distance_rounds(arranged: Arranged) -> Section | None:
    """Consensus distance by round, where it was recorded."""
    curves = {line.group.number: distance_by_round(line.group) for panel in arranged.panels for line in panel.lines}
    furthest = max((value for curve in curves.values() for value in curve.mean), default=0.0)
    if not settled(furthest):
        return None  # nothing was recorded, or all bodies were equal all the time
    figure, grid = panel_axes(arranged)
    most = max(curve.rounds[-1] for curve in curves.values() if curve.rounds)
    drawn = {number: [settled(value, furthest) for value in curve.mean] for number, curve in curves.items()}
    above = [value for values in drawn.values() for value in values if value > 0]
    log = max(above) / min(above) > _WIDE
    for axes, panel in zip(grid, arranged.panels, strict=True):
        for line in panel.lines:
            curve = curves[line.group.number]
            if curve.rounds:
                step = max(1, len(curve.rounds) // 8)
                # A logarithmic axis has no place for 0; the line ends where bodies are equal.
                values = [value or math.nan for value in drawn[line.group.number]] if log else drawn[line.group.number]
                axes.plot(curve.rounds, values, **look(line.style), markevery=(line.style % step, step))
        whole_rounds(axes, 1, most)
        if log:
            axes.set_yscale("log")
            log_ticks(axes.yaxis)
        else:
            axes.set_ylim(bottom=0.0)
    label_outer(grid, "round", _DISTANCE)
    named = {
        line.style: line.name for panel in arranged.panels for line in panel.lines if curves[line.group.number].rounds
    }
    legend(figure, named, [])
    caption = "The same after the mixing of every round that it was recorded in" + (
        ": mean over seeds. "
        if any(len(line.group.runs) > 1 for panel in arranged.panels for line in panel.lines)
        else ". "
    )
    if any(value == 0.0 for values in drawn.values() for value in values):
        caption += "Where bodies differ only by rounding " + ("there is no line. " if log else "the line is at 0. ")
    alt = "Lines of consensus distance by round."
    return Section(
        "disagreement-by-round", "Disagreement by round", (caption + arranged.remark).strip(), alt, render(figure)
    )
