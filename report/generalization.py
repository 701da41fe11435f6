"""The picture of the generalization gap by round: training accuracy less test accuracy."""

from __future__ import annotations

from dpeer.report.curves import by_round
from dpeer.report.panels import Arranged
from dpeer.report.style import Section, label_outer, legend, look, panel_axes, render, whole_rounds

NAME = "generalization-gap-by-round"


def draw_gaps(arranged: Arranged) -> Section | None:
    """The mean gap over the peers by round; None where no run has measured accuracy on training data."""
    curves = {
        line.group.number: by_round(line.group, "generalization_gap")
        for panel in arranged.panels
        for line in panel.lines
    }
    drawn = {number: curve for number, curve in curves.items() if curve.rounds}
    if not drawn:
        return None
    figure, grid = panel_axes(arranged)
    most = max(curve.rounds[-1] for curve in drawn.values())
    for axes, panel in zip(grid, arranged.panels, strict=True):
        for line in panel.lines:
            if (curve := drawn.get(line.group.number)) is not None:
                axes.plot(curve.rounds, curve.mean, **look(line.style), markevery=max(1, len(curve.rounds) // 8))
        axes.axhline(0.0, color="#444444", lw=0.8)
        whole_rounds(axes, 1, most)
    label_outer(grid, "round", "generalization gap")
    legend(figure, arranged.names, [])
    caption = (
        "Training accuracy less test accuracy after the round's mixing, mean over the peers, each on its own data. "
        "Above zero the models fit training data better than new data. "
    )
    ends = " ".join(
        f"{line.name}: {drawn[line.group.number].mean[-1]:+.3f} in round {drawn[line.group.number].rounds[-1]}."
        for panel in arranged.panels
        for line in panel.lines
        if line.group.number in drawn
    )
    alt = f"Lines of the mean generalization gap by round. {ends}"
    return Section(NAME, "Generalization gap by round", (caption + arranged.remark).strip(), alt, render(figure))
