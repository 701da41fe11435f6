"""Panels of lines by round: accuracy, generalization gap, disagreement, megabytes sent; and accuracy by megabytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpeer.report.facets import Facet, Line, Report, facet_axes, label_outer
from dpeer.report.style import GREY, WIDE, Panel, legend, log_ticks, look, whole_rounds
from dpeer.results.groups import BAND, DISTANCE, Curve, Group, by_round, distance_by_round, sent_by_round, settled
from dpeer.results.units import size

_MEGABYTE = 1e6
_SENT = "MB sent per peer since the start"
_DASHED: dict[str, Any] = {"ls": (0, (4, 2))}
_DOTTED = (0, (1, 1.5))

Curves = Mapping[int, Curve]
"""By a group's number; those without a round are left out."""


def accuracy_by_round(report: Report) -> Panel:
    """Accuracy by round: mean, band over peers, and the same before mixing."""
    measure, facets = report.measure, report.facets
    title, curves = f"{measure.name.capitalize()} by round", _curves(report, lambda group: by_round(group, measure.key))
    if not curves:
        return Panel(title, f"No round of these runs was evaluated: no {measure.name} can be drawn.")
    before = measure.trained
    trained = {} if before is None else _curves(report, lambda group: by_round(group, before))

    def draw(axes: Axes, facet: Facet) -> None:
        for line, curve in _of(facet, trained):
            _draw_trained(axes, line, curve)
        _draw_means(axes, facet, curves, crowded=facets.crowded)

    kinds: list[Artist] = [Line2D([], [], color=GREY, lw=1.7, label="after mixing")]
    if trained:
        kinds.append(Line2D([], [], color=GREY, lw=1.2, **_DASHED, label="after local training"))
    band = f"{BAND[0]}th-{BAND[1]}th percentile of peers"
    single = all(len(line.group.ranks) < 2 for line in facets.lines)  # one peer has no spread
    if not single and facets.crowded:
        kinds.append(Line2D([], [], color=GREY, lw=1.2, ls="", marker="|", ms=12, mew=2, label=band))
    elif not single:
        kinds.append(Patch(color=GREY, alpha=0.2, lw=0, label=band))
    where = "Bars at the right: of the last round, the" if facets.crowded else "Bands: the"
    caption = (
        f"Solid: {measure.name} of the peer whose files are here, after the round's mixing. "
        if single
        else f"Solid: mean {measure.name} over the peers (each on its own data, none counts more) after the "
        "round's mixing. "
    )
    caption += "Dashed: the same models after local training, before mixing. " if trained else ""
    caption += "" if single else f"{where} {band}{', all seeds together' if _several_seeds(report) else ''}. "
    ends = [
        f"{line.name}: {curve.mean[0]:.3f} in round {curve.rounds[0]}, {curve.mean[-1]:.3f} in round "
        f"{curve.rounds[-1]}."
        if (curve := curves.get(line.group.number))
        else f"{line.name}: not evaluated."
        for line in facets.lines
    ]
    alt = f"Lines of mean {measure.name} by round. {' '.join(ends)}"
    return _lines(report, title, measure.axis, draw, f"{caption}Round 1 is the first. ", alt, curves, kinds=kinds)


def generalization_gap(report: Report) -> Panel | None:
    """The mean gap over the peers by round; None where no run has measured accuracy on training data."""
    curves = _curves(report, lambda group: by_round(group, "generalization_gap"))
    if not curves:
        return None

    def draw(axes: Axes, facet: Facet) -> None:
        for line, curve in _of(facet, curves):
            axes.plot(curve.rounds, curve.mean, **look(line.style), markevery=max(1, len(curve.rounds) // 8))
        axes.axhline(0.0, color=GREY, lw=0.8)

    caption = (
        "Training accuracy less test accuracy after the round's mixing, mean over the peers, each on its own data. "
        "Above zero the models fit training data better than new data. "
    )
    ends = _ends(report, curves, lambda curve: f"{curve.mean[-1]:+.3f} in round {curve.rounds[-1]}.")
    alt = f"Lines of the mean generalization gap by round. {ends}"
    return _lines(report, "Generalization gap by round", "generalization gap", draw, caption, alt, curves)


def disagreement_by_round(report: Report) -> Panel | None:
    """Consensus distance by round, where it was recorded."""
    curves = _curves(report, distance_by_round)
    furthest = max((value for curve in curves.values() for value in curve.mean), default=0.0)
    if not settled(furthest):
        return None  # nothing was recorded, or all bodies were equal all the time
    drawn = {number: [settled(value, furthest) for value in curve.mean] for number, curve in curves.items()}
    above = [value for values in drawn.values() for value in values if value > 0]
    log = max(above) / min(above) > WIDE

    def draw(axes: Axes, facet: Facet) -> None:
        for line, curve in _of(facet, curves):
            # A logarithmic axis has no place for 0; the line ends where bodies are equal.
            values = [value or math.nan for value in drawn[line.group.number]] if log else drawn[line.group.number]
            axes.plot(curve.rounds, values, **look(line.style), markevery=_every(len(curve.rounds), line.style))

    def scale(axes: Axes) -> None:
        if log:
            axes.set_yscale("log")
            log_ticks(axes.yaxis)
        else:
            axes.set_ylim(bottom=0.0)

    caption = "The same after the mixing of every round that it was recorded in"
    caption += ": mean over seeds. " if _several_seeds(report) else ". "
    if any(value == 0.0 for values in drawn.values() for value in values):
        caption += "Where bodies differ only by rounding " + ("the line is broken. " if log else "the line is at 0. ")
    names = {line.style: line.name for line in report.facets.lines if line.group.number in curves}
    alt = "Lines of consensus distance by round."
    title = "Disagreement by round"
    return _lines(report, title, DISTANCE, draw, caption, alt, curves, scale=scale, names=names)


def bytes_by_round(report: Report) -> Panel:
    """Megabytes sent by round: the mean and the busiest peer's."""
    title, curves = "Megabytes sent", _curves(report, sent_by_round)
    if not curves:
        return Panel(title, "These runs left no count of bytes by round.")
    if (same := _same_every_round(report)) is not None:
        rounds = next(iter(curves.values())).rounds[-1]
        sent = f"A peer sends {size(round(same))} in each round, {size(round(same * rounds))} in {rounds} rounds."
        return Panel(title, sent if same else "These peers send nothing.")
    uneven = {number for number, curve in curves.items() if curve.high[-1] > 1.01 * curve.mean[-1]}

    def draw(axes: Axes, facet: Facet) -> None:
        for line, curve in _of(facet, curves):
            style, megabytes = look(line.style), [value / _MEGABYTE for value in curve.mean]
            axes.plot(curve.rounds, megabytes, **style, markevery=_every(len(curve.rounds), line.style))
            if line.group.number in uneven:
                busiest = [value / _MEGABYTE for value in curve.high]
                axes.plot(curve.rounds, busiest, color=style["color"], lw=1.2, ls=_DOTTED)

    kinds: list[Artist] = [Line2D([], [], color=GREY, lw=1.7, label="mean over peers")]
    if uneven:
        kinds.append(Line2D([], [], color=GREY, lw=1.2, ls=_DOTTED, label="busiest peer"))
    caption = (
        "What a peer has sent by the end of each round: the mean over the peers, and the one that has sent most by "
        "then. A run without the second line has peers that all send alike. A megabyte is 1,000,000 bytes. "
    )
    ends = _ends(report, curves, lambda curve: f"{curve.mean[-1] / _MEGABYTE:.3g} MB a peer in the end.")
    alt = f"Lines of megabytes sent by round. {ends}"
    return _lines(report, title, _SENT, draw, caption, alt, curves, first=0, kinds=kinds,
                  scale=lambda axes: axes.set_ylim(bottom=0.0))  # fmt: skip


def accuracy_by_bytes(report: Report) -> Panel | None:
    """Accuracy by megabytes sent; None where rounds show the same."""
    measure = report.measure
    if _same_every_round(report) is not None:
        return None
    title = f"{measure.name.capitalize()} by megabytes sent"
    points = {line.group.number: _by_megabytes(line.group, report) for line in report.facets.lines}
    if not any(points.values()):
        return Panel(title, f"These runs have no {measure.name}, or no count of bytes, to draw.")
    free = {number for number, found in points.items() if found and found[-1][0] == 0.0}

    def draw(axes: Axes, facet: Facet) -> None:
        for line in facet.lines:
            found, style = points[line.group.number], look(line.style)
            if line.group.number in free:
                # Nothing was sent: a line across, to compare what the others pay for.
                axes.axhline(found[-1][1], color=style["color"], lw=1.4, ls=_DOTTED, zorder=1)
                axes.plot([0.0], [found[-1][1]], **{**style, "clip_on": False})
            elif found:
                axes.plot(*zip(*found, strict=True), **style, markevery=_every(len(found), line.style))

    nothing = Line2D([], [], color=GREY, lw=1.4, ls=_DOTTED, label="sends nothing: value at the end")
    caption = (
        f"What each run's mean {measure.name} after mixing costs a peer on average. Further left at the same height is "
        "cheaper. A megabyte is 1,000,000 bytes; bodies and their headers are counted, handshakes are not. "
    )
    alt = f"Lines of mean {measure.name} by megabytes that a peer has sent."
    kinds = [nothing] if free else []
    return _lines(report, title, measure.axis, draw, caption, alt, x=f"{_SENT} (mean)", kinds=kinds,
                  scale=lambda axes: axes.set_xlim(left=0.0))  # fmt: skip


def _by_megabytes(group: Group, report: Report) -> list[tuple[float, float]]:
    """The megabytes that a peer has sent by each evaluated round, and the measure in it."""
    curve, sent = by_round(group, report.measure.key), sent_by_round(group)
    paid = dict(zip(sent.rounds, sent.mean, strict=True))
    found = zip(curve.rounds, curve.mean, strict=True)
    return [(paid[number] / _MEGABYTE, value) for number, value in found if number in paid]


def _lines(
    report: Report,
    title: str,
    y: str,
    draw: Callable[[Axes, Facet], None],
    caption: str,
    alt: str,
    curves: Curves | None = None,
    *,
    x: str = "round",
    first: int = 1,
    scale: Callable[[Axes], Any] = lambda axes: None,
    kinds: Sequence[Artist] = (),
    names: Mapping[int, str] | None = None,
) -> Panel:
    """A panel of axes for each facet, which `draw` fills; with `curves`, whole rounds are labelled from `first` on."""
    figure, grid = facet_axes(report.facets)
    for axes, facet in zip(grid, report.facets.facets, strict=True):
        draw(axes, facet)
    for axes in grid:  # facets share their axes: a limit that is set before all is drawn would cut later lines off
        if curves is not None:
            whole_rounds(axes, first, max(curve.rounds[-1] for curve in curves.values()))
        scale(axes)
    label_outer(grid, x, y)
    legend(figure, report.facets.names if names is None else names, kinds)
    return Panel(title, caption + report.facets.remark, alt, figure)


def _curves(report: Report, of: Callable[[Group], Curve]) -> Curves:
    found = {line.group.number: of(line.group) for line in report.facets.lines}
    return {number: curve for number, curve in found.items() if curve.rounds}


def _of(facet: Facet, curves: Curves) -> Iterable[tuple[Line, Curve]]:
    """The lines of a facet that have a curve."""
    return [(line, curves[line.group.number]) for line in facet.lines if line.group.number in curves]


def _ends(report: Report, curves: Curves, text: Callable[[Curve], str]) -> str:
    lines = [each for facet in report.facets.facets for each in _of(facet, curves)]
    return " ".join(f"{line.name}: {text(curve)}" for line, curve in lines)


def _draw_means(axes: Axes, facet: Facet, curves: Curves, *, crowded: bool) -> None:
    end = max((curve.rounds[-1] for _, curve in _of(facet, curves)), default=1)
    for place, line in enumerate(facet.lines, 1):
        curve, style = curves.get(line.group.number), look(line.style)
        if curve is None:
            continue
        axes.plot(curve.rounds, curve.mean, **style, markevery=_every(len(curve.rounds), line.style))
        if crowded:
            beside = end * (1.0 + 0.022 * place) + 0.03 * place
            axes.plot([curve.rounds[-1], beside], [curve.mean[-1]] * 2, color=style["color"], lw=0.7, alpha=0.6)
            axes.plot([beside] * 2, [curve.low[-1], curve.high[-1]], color=style["color"], lw=2.0)
        elif len(curve.rounds) == 1:
            axes.vlines(curve.rounds, curve.low, curve.high, color=style["color"], lw=6, alpha=0.2)
        else:
            axes.fill_between(curve.rounds, curve.low, curve.high, color=style["color"], alpha=0.15, lw=0)


def _draw_trained(axes: Axes, line: Line, curve: Curve) -> None:
    color = look(line.style)["color"]
    if len(curve.rounds) == 1:
        axes.plot(curve.rounds, curve.mean, color=color, marker="_", ms=14, mew=2)
    axes.plot(curve.rounds, curve.mean, color=color, lw=1.1, **_DASHED, alpha=0.8, zorder=1.8)


def _every(points: int, style: int) -> tuple[int, int]:
    """Which points get markers: about eight of a line, at other places than on other lines."""
    step = max(1, points // 8)
    return style % step, step


def _several_seeds(report: Report) -> bool:
    return any(len(line.group.runs) > 1 for line in report.facets.lines)


def _same_every_round(report: Report) -> float | None:
    """The bytes that a peer sends in a round, if the panel has one line and every round and peer adds the same.

    Drawn, that is a diagonal, which shows less than the number. None if rounds or peers differ.
    """
    groups = [line.group for line in report.facets.lines]
    sent = sent_by_round(groups[0]) if len(groups) == 1 else None
    if sent is None or len(sent.rounds) < 2 or sent.high[-1] > 1.01 * sent.mean[-1]:
        return None
    each = [after - before for before, after in pairwise(sent.mean)]
    return each[0] if max(each) <= 1.01 * min(each) else None
