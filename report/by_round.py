"""Panels of lines by round: accuracy with its spread over the peers, and disagreement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpeer.report.shown import Report
from dpeer.report.style import GREY, WIDE, Panel, legend, log_ticks, look, new_figure, tidy, whole_rounds
from dpeer.results.groups import BAND, DISTANCE, Curve, Group, by_round, distance_by_round, settled

_DASHED: dict[str, Any] = {"ls": (0, (4, 2))}

_APART = 3
"""With more lines than that their bands would lie on one another."""

Curves = Mapping[int, Curve]
"""By a group's number; those without a round are left out."""


def accuracy_by_round(report: Report) -> Panel:
    """Accuracy by round: mean, band over peers, and the same before mixing."""
    measure, crowded = report.measure, len(report.best) > _APART
    title, curves = f"{measure.name.capitalize()} by round", _curves(report, lambda group: by_round(group, measure.key))
    if not curves:
        return Panel(title, f"No round of these runs was evaluated: no {measure.name} can be drawn.")
    before = measure.trained
    trained = {} if before is None else _curves(report, lambda group: by_round(group, before))

    def draw(axes: Axes) -> None:
        for number, curve in trained.items():
            _draw_trained(axes, look(report.styles[number])["color"], curve)
        _draw_means(axes, report, curves, crowded=crowded)

    kinds: list[Artist] = [Line2D([], [], color=GREY, lw=1.7, label="after mixing")]
    if trained:
        kinds.append(Line2D([], [], color=GREY, lw=1.2, **_DASHED, label="after local training"))
    band = f"{BAND[0]}th-{BAND[1]}th percentile of peers"
    single = all(len(group.ranks) < 2 for group in report.best)  # one peer has no spread
    if not single and crowded:
        kinds.append(Line2D([], [], color=GREY, lw=1.2, ls="", marker="|", ms=12, mew=2, label=band))
    elif not single:
        kinds.append(Patch(color=GREY, alpha=0.2, lw=0, label=band))
    where = "Bars at the right: of the last round, the" if crowded else "Bands: the"
    caption = (
        f"Solid: {measure.name} of the peer whose files are here, after the round's mixing. "
        if single
        else f"Solid: mean {measure.name} over the peers (each on its own data, none counts more) after the "
        "round's mixing. "
    )
    caption += "Dashed: the same models after local training, before mixing. " if trained else ""
    caption += "" if single else f"{where} {band}{', all seeds together' if _several_seeds(report) else ''}. "
    ends = [
        f"{group.name}: {curve.mean[0]:.3f} in round {curve.rounds[0]}, {curve.mean[-1]:.3f} in round "
        f"{curve.rounds[-1]}."
        if (curve := curves.get(group.number))
        else f"{group.name}: not evaluated."
        for group in report.best
    ]
    alt = f"Lines of mean {measure.name} by round. {' '.join(ends)}"
    return _lines(report, title, measure.axis, draw, f"{caption}Round 1 is the first. ", alt, curves, kinds)


def disagreement_by_round(report: Report) -> Panel | None:
    """Consensus distance by round, where it was recorded."""
    curves = _curves(report, distance_by_round)
    furthest = max((value for curve in curves.values() for value in curve.mean), default=0.0)
    if not settled(furthest):
        return None  # nothing was recorded, or all bodies were equal all the time
    drawn = {number: [settled(value, furthest) for value in curve.mean] for number, curve in curves.items()}
    above = [value for values in drawn.values() for value in values if value > 0]
    log = max(above) / min(above) > WIDE

    def draw(axes: Axes) -> None:
        for number, curve in curves.items():
            # A logarithmic axis has no place for 0; the line ends where bodies are equal.
            values = [value or math.nan for value in drawn[number]] if log else drawn[number]
            style = report.styles[number]
            axes.plot(curve.rounds, values, **look(style), markevery=_every(len(curve.rounds), style))
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
    alt = "Lines of consensus distance by round."
    return _lines(report, "Disagreement by round", DISTANCE, draw, caption, alt, curves)


def _lines(
    report: Report,
    title: str,
    y: str,
    draw: Callable[[Axes], None],
    caption: str,
    alt: str,
    curves: Curves,
    kinds: Sequence[Artist] = (),
) -> Panel:
    """A panel with a line for each group that has a curve, which `draw` draws."""
    names = {report.styles[group.number]: group.name for group in report.best if group.number in curves}
    figure = new_figure(4.6 + 0.2 * len(names))
    axes = figure.subplots()
    tidy(axes)
    draw(axes)
    whole_rounds(axes, 1, max(curve.rounds[-1] for curve in curves.values()))
    axes.set_xlabel("round")
    axes.set_ylabel(y)
    legend(figure, names, kinds)
    return Panel(title, caption + report.remark, alt, figure)


def _curves(report: Report, of: Callable[[Group], Curve]) -> Curves:
    found = {group.number: of(group) for group in report.best}
    return {number: curve for number, curve in found.items() if curve.rounds}


def _draw_means(axes: Axes, report: Report, curves: Curves, *, crowded: bool) -> None:
    end = max(curve.rounds[-1] for curve in curves.values())
    for number, curve in curves.items():
        place = report.styles[number]
        style = look(place)
        axes.plot(curve.rounds, curve.mean, **style, markevery=_every(len(curve.rounds), place))
        if crowded:
            beside = end * (1.0 + 0.022 * (place + 1)) + 0.03 * (place + 1)
            axes.plot([curve.rounds[-1], beside], [curve.mean[-1]] * 2, color=style["color"], lw=0.7, alpha=0.6)
            axes.plot([beside] * 2, [curve.low[-1], curve.high[-1]], color=style["color"], lw=2.0)
        elif len(curve.rounds) == 1:
            axes.vlines(curve.rounds, curve.low, curve.high, color=style["color"], lw=6, alpha=0.2)
        else:
            axes.fill_between(curve.rounds, curve.low, curve.high, color=style["color"], alpha=0.15, lw=0)


def _draw_trained(axes: Axes, color: str, curve: Curve) -> None:
    if len(curve.rounds) == 1:
        axes.plot(curve.rounds, curve.mean, color=color, marker="_", ms=14, mew=2)
    axes.plot(curve.rounds, curve.mean, color=color, lw=1.1, **_DASHED, alpha=0.8, zorder=1.8)


def _every(points: int, style: int) -> tuple[int, int]:
    """Which points get markers: about eight of a line, at other places than on other lines."""
    step = max(1, points // 8)
    return style % step, step


def _several_seeds(report: Report) -> bool:
    return any(len(group.runs) > 1 for group in report.best)
