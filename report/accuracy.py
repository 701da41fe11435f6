"""Pictures of accuracy by round, and by megabytes sent."""

from __future__ import annotations

from itertools import pairwise

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpeer.report.curves import BAND, Curve, Measure, by_round, sent_by_round
from dpeer.report.panels import Arranged, Line, Panel
from dpeer.report.style import Section, label_outer, legend, look, panel_axes, render, whole_rounds

MEGABYTE = 1e6

_GREY = "#444444"


def draw_rounds(arranged: Arranged, measure: Measure) -> Section:
    """Accuracy by round: mean, band over peers, and the same before mixing."""
    name, title = "accuracy-by-round", f"{measure.name.capitalize()} by round"
    curves = {line.group.number: by_round(line.group, measure.key) for panel in arranged.panels for line in panel.lines}
    if not any(curve.rounds for curve in curves.values()):
        return Section(name, title, f"No round of these runs was evaluated: there is no {measure.name} to draw.")
    figure, grid = panel_axes(arranged)
    trained = False
    most = max(curve.rounds[-1] for curve in curves.values() if curve.rounds)
    for axes, panel in zip(grid, arranged.panels, strict=True):
        for line in panel.lines:
            trained |= _draw_trained(axes, line, measure)
        _draw_means(axes, panel, curves, crowded=arranged.crowded)
        whole_rounds(axes, 1, most)
    label_outer(grid, "round", measure.axis)
    kinds: list[Artist] = [Line2D([], [], color=_GREY, lw=1.7, label="after mixing")]
    if trained:
        kinds.append(Line2D([], [], color=_GREY, lw=1.2, ls=(0, (4, 2)), label="after local training"))
    band = f"{BAND[0]}th-{BAND[1]}th percentile of peers"
    alone = all(len(line.group.ranks) < 2 for panel in arranged.panels for line in panel.lines)
    if alone:
        pass  # of one peer there is no spread
    elif arranged.crowded:
        kinds.append(Line2D([], [], color=_GREY, lw=1.2, ls="", marker="|", ms=12, mew=2, label=band))
    else:
        kinds.append(Patch(color=_GREY, alpha=0.2, lw=0, label=band))
    legend(figure, arranged.names, kinds)
    caption = (
        (
            f"Solid: {measure.name} of the peer whose files are here, after the round's mixing. "
            if alone
            else f"Solid: mean {measure.name} over the peers (each on its own data, none counts more) after the "
            "round's mixing. "
        )
        + ("Dashed: the same models after local training, before mixing. " if trained else "")
        + ("" if alone else _about_band(arranged, band))
        + "Round 1 is the first. "
        + arranged.remark
    )
    ends = [(line.name, curves[line.group.number]) for panel in arranged.panels for line in panel.lines]
    alt = f"Lines of mean {measure.name} by round. " + " ".join(_ends(label, curve) for label, curve in ends)
    return Section(name, title, caption.strip(), alt, render(figure))


def _about_band(arranged: Arranged, band: str) -> str:
    seeds = any(len(line.group.runs) > 1 for panel in arranged.panels for line in panel.lines)
    where = "Bars at the right: of the last round, the" if arranged.crowded else "Bands: the"
    return f"{where} {band}{', all seeds together' if seeds else ''}. "


def draw_price(arranged: Arranged, measure: Measure) -> Section | None:
    """Accuracy by megabytes sent; None where rounds say the same."""
    name, title = "accuracy-by-bytes", f"{measure.name.capitalize()} by megabytes sent"
    if every_round_alike(arranged) is not None:
        return None
    figure, grid = panel_axes(arranged)
    free = drawn = False
    for axes, panel in zip(grid, arranged.panels, strict=True):
        for line in panel.lines:
            curve, sent = by_round(line.group, measure.key), sent_by_round(line.group)
            paid = dict(zip(sent.rounds, sent.mean, strict=True))
            points = [(paid[number] / MEGABYTE, value) for number, value in zip(curve.rounds, curve.mean, strict=True)
                      if number in paid]  # fmt: skip
            if not points:
                continue
            drawn = True
            if points[-1][0] == 0.0:
                # Nothing was sent: a line across, to compare what the others pay for.
                free = True
                axes.axhline(points[-1][1], color=look(line.style)["color"], lw=1.4, ls=(0, (1, 1.5)), zorder=1)
                axes.plot([0.0], [points[-1][1]], **{**look(line.style), "clip_on": False})
                continue
            axes.plot(*zip(*points, strict=True), **look(line.style), markevery=_every(len(points), line.style))
        axes.set_xlim(left=0.0)
    if not drawn:
        return Section(name, title, f"There is no {measure.name}, or no count of bytes, to draw.")
    label_outer(grid, "MB sent per peer since the start (mean)", measure.axis)
    kinds: list[Artist] = []
    if free:
        kinds.append(Line2D([], [], color=_GREY, lw=1.4, ls=(0, (1, 1.5)), label="sends nothing: value at the end"))
    legend(figure, arranged.names, kinds)
    caption = (
        f"What each run's mean {measure.name} after mixing costs a peer on average. Further left at the same height is "
        "cheaper. A megabyte is 1,000,000 bytes; bodies and their headers are counted, handshakes are not. "
    )
    alt = f"Lines of mean {measure.name} by megabytes that a peer has sent."
    return Section(name, title, (caption + arranged.remark).strip(), alt, render(figure))


def every_round_alike(arranged: Arranged) -> float | None:
    """The bytes that a peer sends in a round, where one line is all there is and every round and peer adds the same.

    Drawn, that is a diagonal, which says less than the number. None if there is more to see.
    """
    groups = [line.group for panel in arranged.panels for line in panel.lines]
    sent = sent_by_round(groups[0]) if len(groups) == 1 else None
    if sent is None or len(sent.rounds) < 2 or sent.high[-1] > 1.01 * sent.mean[-1]:
        return None
    each = [after - before for before, after in pairwise(sent.mean)]
    return each[0] if max(each) <= 1.01 * min(each) else None


def _draw_means(axes: Axes, panel: Panel, curves: dict[int, Curve], *, crowded: bool) -> None:
    end = max(
        (curves[line.group.number].rounds[-1] for line in panel.lines if curves[line.group.number].rounds), default=1
    )
    for place, line in enumerate(panel.lines, 1):
        curve, style = curves[line.group.number], look(line.style)
        if not curve.rounds:
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


def _draw_trained(axes: Axes, line: Line, measure: Measure) -> bool:
    curve = by_round(line.group, measure.trained) if measure.trained else None
    if curve is None or not curve.rounds:
        return False
    color = look(line.style)["color"]
    if len(curve.rounds) == 1:
        axes.plot(curve.rounds, curve.mean, color=color, marker="_", ms=14, mew=2)
    axes.plot(curve.rounds, curve.mean, color=color, lw=1.1, ls=(0, (4, 2)), alpha=0.8, zorder=1.8)
    return True


def _every(points: int, style: int) -> tuple[int, int]:
    """Which points get markers: about eight of a line, at other places than on other lines."""
    step = max(1, points // 8)
    return style % step, step


def _ends(name: str, curve: Curve) -> str:
    if not curve.rounds:
        return f"{name}: not evaluated."
    return f"{name}: {curve.mean[0]:.3f} in round {curve.rounds[0]}, {curve.mean[-1]:.3f} in round {curve.rounds[-1]}."
