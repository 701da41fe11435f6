"""Panels over rounds: accuracy with its spread over the peers, disagreement, and what a round costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from dpeer.report.style import GREY, WIDE, Panel, Report, legend, log_ticks, look, name_rows, new_figure
from dpeer.results.groups import BAND, DISTANCE, Curve, Group, by_round, distance_by_round, sent_in_a_round, settled
from dpeer.results.units import duration, size

_DASHED: dict[str, Any] = {"ls": (0, (4, 2))}

_APART = 3
"""With more lines than that their bands would lie on one another."""

Curves = Mapping[int, Curve]
"""By a group's number; those without a round are left out."""


def accuracy_by_round(report: Report) -> Panel:
    """Accuracy by round: mean, band over peers where lines are few, and the same before mixing."""
    measure, several = report.measure, any(len(group.ranks) > 1 for group in report.best)  # one peer has no spread
    title, curves = f"{measure.name.capitalize()} by round", _curves(report, lambda group: by_round(group, measure.key))
    if not curves:
        return Panel(title, f"No round of these runs was evaluated: no {measure.name} can be drawn.")
    before, bands = measure.trained, several and len(report.best) <= _APART
    trained = {} if before is None else _curves(report, lambda group: by_round(group, before))
    kinds: list[Artist] = [Line2D([], [], color=GREY, lw=1.7, label="after mixing")]
    over = "over the peers (each on its own data, none counts more)" if several else "of the peer whose files are here,"
    caption = f"Solid: {'mean ' if several else ''}{measure.name} {over} after the round's mixing. "
    if trained:
        kinds.append(Line2D([], [], color=GREY, lw=1.2, **_DASHED, label="after local training"))
        caption += "Dashed: the same models after local training, before mixing. "
    if bands:
        band = f"{BAND[0]}th-{BAND[1]}th percentile of peers"
        kinds.append(Patch(color=GREY, alpha=0.2, lw=0, label=band))
        caption += f"Bands: the {band}{', all seeds together' if _several_seeds(report) else ''}. "
    figure, axes = _axes(report, curves, measure.axis, kinds)
    for number, curve in trained.items():
        alone: dict[str, Any] = {"marker": "_", "ms": 14, "mew": 2} if len(curve.rounds) == 1 else {}
        color = look(report.styles[number])["color"]
        axes.plot(curve.rounds, curve.mean, color=color, lw=1.1, **_DASHED, **alone, alpha=0.8, zorder=1.8)
    for number, curve in curves.items():
        style = look(report.styles[number])
        axes.plot(curve.rounds, curve.mean, **style)
        if bands:
            axes.fill_between(curve.rounds, curve.low, curve.high, color=style["color"], alpha=0.15, lw=0)
    ends = [
        f"{group.name}: {one.mean[0]:.3f} in round {one.rounds[0]}, {one.mean[-1]:.3f} in round {one.rounds[-1]}."
        for group in report.best
        if (one := curves.get(group.number))
    ]
    alt = f"Lines of mean {measure.name} by round. {' '.join(ends)}"
    return Panel(title, f"{caption}Round 1 is the first. {report.remark}", alt, figure)


def disagreement_by_round(report: Report) -> Panel | None:
    """Consensus distance by round, where it was recorded."""
    curves = _curves(report, distance_by_round)
    furthest = max((value for curve in curves.values() for value in curve.mean), default=0.0)
    if not settled(furthest):
        return None  # nothing was recorded, or all bodies were equal all the time
    drawn = {number: [settled(value, furthest) for value in curve.mean] for number, curve in curves.items()}
    above = [value for values in drawn.values() for value in values if value > 0]
    log = max(above) / min(above) > WIDE
    figure, axes = _axes(report, curves, DISTANCE)
    for number, values in drawn.items():
        # A logarithmic axis has no place for 0; the line ends where bodies are equal.
        shown = [value or math.nan for value in values] if log else values
        axes.plot(curves[number].rounds, shown, **look(report.styles[number]))
    if log:
        axes.set_yscale("log")
        log_ticks(axes.yaxis)
    else:
        axes.set_ylim(bottom=0.0)
    caption = (
        "How far the peers' bodies lie from their mean after a round's mixing: the root of the mean square of their "
        "distances; 0 is full agreement. Bodies of different models or algorithms are of different lengths, so compare "
        "like with like. " + ("Lines are means over seeds. " if _several_seeds(report) else "")
    )
    if any(value == 0.0 for values in drawn.values() for value in values):
        caption += "Where bodies differ only by rounding " + ("the line is broken. " if log else "the line is at 0. ")
    return Panel("Disagreement by round", caption + report.remark, "Lines of consensus distance by round.", figure)


def _axes(report: Report, curves: Curves, y: str, kinds: Sequence[Artist] = ()) -> tuple[Figure, Axes]:
    """A figure for a line of each group that has a curve."""
    names = {report.styles[group.number]: group.name for group in report.best if group.number in curves}
    figure = new_figure(4.6 + 0.2 * len(names))
    axes = figure.subplots()
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, min_n_ticks=1))
    axes.set_xlabel("round")
    axes.set_ylabel(y)
    legend(figure, names, kinds)
    return figure, axes


def _curves(report: Report, of: Callable[[Group], Curve]) -> Curves:
    found = {group.number: of(group) for group in report.best}
    return {number: curve for number, curve in found.items() if curve.rounds}


def _several_seeds(report: Report) -> bool:
    return any(len(group.runs) > 1 for group in report.best)


_ROWS = 40
"""The most rows of a picture."""

_PARTS = (("training", "#0072B2"), ("waiting", "#E69F00"), ("mixing", "#009E73"))

_MEGABYTE = 1e6

Parts = tuple[float, ...]
"""Seconds of a round: training, waiting, mixing."""


def time_and_bytes(report: Report) -> Panel | None:
    """The mean parts of a round and the bytes that it sends, a row for each group; None where neither was recorded."""
    found = [(group, parts_of(group), sent_in_a_round(group)) for group in report.groups]
    found = [row for row in found if row[1] or row[2]]
    if not found:
        return None
    shown = found[:_ROWS]
    figure = new_figure(1.6 + max(0.4 * len(shown), 0.7))
    seconds, megabytes = figure.subplots(1, 2, width_ratios=(3, 2))
    for row, (_, parts, sent) in enumerate(shown):
        begin = 0.0
        for part, (_, color) in zip(parts or (), _PARTS, strict=False):
            seconds.barh(row, part, left=begin, height=0.5, color=color, lw=0)
            begin += part
        mean, most = sent or (0.0, 0.0)
        megabytes.barh(row, mean / _MEGABYTE, height=0.5, color=GREY, alpha=0.5, lw=0)
        megabytes.plot([most / _MEGABYTE], [row], ls="", marker="|", ms=14, mew=2, color=GREY)
    name_rows(seconds, [group.name for group, _, _ in shown])
    megabytes.grid(axis="y", visible=False)
    megabytes.set_yticks([])
    megabytes.set_ylim(seconds.get_ylim())
    seconds.set_xlabel("seconds of a round")
    megabytes.set_xlabel("MB sent by a peer")
    for axes in (seconds, megabytes):
        axes.set_xlim(left=0.0)
    busiest = Line2D([], [], ls="", marker="|", ms=14, mew=2, color=GREY, label="busiest peer")
    legend(figure, {}, [*(Patch(color=color, label=name) for name, color in _PARTS), busiest])
    caption = (
        "A round in the mean over peers and rounds; evaluations and the disk are left out. A megabyte is 1,000,000 "
        "bytes; bodies and their headers are counted, handshakes are not. "
    ) + (f"The first {_ROWS} of {len(found)}; the table has all." if len(found) > _ROWS else "")
    alt = "Bars of a round's seconds and megabytes. " + " ".join(_in_words(*row) for row in shown)
    return Panel("Time and bytes of a round", caption, alt, figure)


def _in_words(group: Group, parts: Parts | None, sent: tuple[float, float] | None) -> str:
    words = []
    if parts is not None:
        named = ", ".join(f"{name} {duration(part)}" for part, (name, _) in zip(parts, _PARTS, strict=True))
        words.append(f"{duration(sum(parts))} ({named})")
    if sent is not None:
        words.append(f"{size(round(sent[0]))} sent, {size(round(sent[1]))} by the busiest peer")
    return f"{group.label}: {'; '.join(words)}."


def parts_of(group: Group) -> Parts | None:
    """The mean parts of a round over peers, rounds and seeds; None where they were not recorded."""
    lines = [line for run in group.runs for peer in run.peers.values() for line in peer.entries.values()]
    every = [line.seconds for line in lines if line.active and line.seconds is not None]
    return tuple(map(fmean, zip(*every, strict=True))) or None
