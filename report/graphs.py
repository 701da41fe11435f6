"""Panel of the graphs that the runs gossiped on, with peers colored by their result."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from dpeer.exceptions import DpeerError
from dpeer.report.facets import Report
from dpeer.report.graph_drawing import draw_tile, place
from dpeer.report.style import Panel, new_figure, wrap
from dpeer.results.curves import Measure, mean_of
from dpeer.results.groups import Group
from dpeer.sections import names
from dpeer.topology import AnyTopology, TimeVaryingTopology
from dpeer.topology.settings import GraphSettings, build_graph

SIZE_LIMIT = 1000
"""The largest graph that is drawn: of more, dots merge."""

_TILES = 6
_NUMBERED = 24
_COLORMAP = "cividis"


def tiles(report: Report) -> Panel:
    """A tile for each group; of many groups a tile for each graph, with the best group on it."""
    title, groups, measure = "Graph", report.groups, report.measure
    chosen = groups if len(groups) <= _TILES else _best_on_each(groups, measure)
    shown = [(group, graph) for group in chosen if (graph := _graph(group)) is not None][:_TILES]
    if not shown:
        return Panel(title, f"No graph to draw: the settings do not say, or it has over {SIZE_LIMIT} peers.")
    columns = min(len(shown), 2)
    rows = math.ceil(len(shown) / columns)
    figure = new_figure((4.4 if columns == 1 else 4.1) * rows + 0.5)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    values = [_by_rank(group, measure) for group, _ in shown]
    known = [value for found in values for value in found.values()]
    scale = Normalize(min(known), max(known)) if known else Normalize(0, 1)
    if known and scale.vmin == scale.vmax:
        scale = Normalize(min(known) - 0.01, max(known) + 0.01)
    for axes, (group, graph), found in zip(grid, shown, values, strict=False):
        _draw(axes, graph, found, scale)
        axes.set_title(wrap(group.name, 34 if columns > 1 else 70), fontsize=11, pad=4)
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    if len(known) > 1:
        bar = figure.colorbar(
            ScalarMappable(scale, _COLORMAP), ax=list(grid), location="bottom", shrink=0.7, aspect=35, pad=0.03
        )
        bar.set_label(f"{measure.axis} at the end")
    changing = any(isinstance(graph, TimeVaryingTopology) for _, graph in shown)
    caption = (
        "Peers, with their ranks where they are few, and the edges along which bodies travel; a peer's color is its "
        f"{measure.name} at the end{' (mean over seeds)' if any(len(g.runs) > 1 for g, _ in shown) else ''}. "
        + ("A graph that changes with the round is shown by its first rounds, a color for each. " if changing else "")
        + (
            "A white peer has none. "
            if any(len(f) < graph.size for f, (_, graph) in zip(values, shown, strict=True))
            else ""
        )
        + (f"Of {len(groups)} groups the best on each graph, {_TILES} graphs at most. " if len(groups) > _TILES else "")
    )
    alt = "Drawings of graphs. " + " ".join(f"{g.label}: {graph.name} of {graph.size} peers." for g, graph in shown)
    return Panel(title, caption, alt, figure)


def _draw(axes: Axes, graph: AnyTopology, found: dict[int, float], scale: Normalize) -> None:
    draw_tile(axes, graph, "#555555")
    # What stands below a tile is small beside seven others; here there is room.
    axes.xaxis.label.set_fontsize(9.5)
    axes.set_xlabel("\n".join([graph.name, *filter(None, axes.get_xlabel().split("\n"))]))
    key = axes.get_legend()
    if key is not None:
        for text in key.get_texts():
            text.set_fontsize(9.5)
        key.get_texts()[0].set_text(f"round {key.get_texts()[0].get_text()}")
        axes.set_ylim(bottom=-1.45)
    points = place(graph)
    numbered = graph.size <= _NUMBERED
    colors = [colormaps[_COLORMAP](scale(found[rank])) if rank in found else (1.0,) * 4 for rank in range(graph.size)]
    area = 330.0 if numbered else max(12.0, 3000 / graph.size)
    axes.scatter(
        points[:, 0],
        points[:, 1],
        s=area,
        c=colors,
        edgecolors="#333333",
        linewidths=1.0 if graph.size <= 100 else 0.4,
        zorder=5,
    )
    for rank, (x, y) in enumerate(points if numbered else ()):
        ink = "white" if np.dot(colors[rank][:3], (0.299, 0.587, 0.114)) < 0.5 else "black"
        axes.annotate(str(rank), (x, y), ha="center", va="center_baseline", fontsize=9.5, color=ink, zorder=6)


def _graph(group: Group) -> AnyTopology | None:
    """The graph of a run's settings; None if they name none, or it cannot be built or drawn."""
    if group.size > SIZE_LIMIT:
        return None
    settings = group.runs[0].settings
    asked = {key: settings[key] for key in names(GraphSettings) if settings.get(key) is not None and key != "weights"}
    if "topology" not in asked:
        return None
    try:
        # With the default weights: those that are solved for take minutes, and are not seen.
        return build_graph(GraphSettings.model_validate({**asked, "size": group.size}))
    except (DpeerError, OSError, ValueError):
        return None  # of a file that is not here, say


def _by_rank(group: Group, measure: Measure) -> dict[int, float]:
    found = [run.finals(measure.key) for run in group.runs]
    return {rank: fmean(each[rank] for each in found if rank in each) for rank in sorted(set().union(*found))}


def _best_on_each(groups: tuple[Group, ...], measure: Measure) -> tuple[Group, ...]:
    best: dict[str, tuple[float, Group]] = {}
    for group in groups:
        key = repr([group.runs[0].settings.get(key) for key in names(GraphSettings)])
        mean = mean_of(group, measure.key)
        worth = (fmean(mean) if measure.most_is_best else -fmean(mean)) if mean else float("-inf")
        if key not in best or worth > best[key][0]:
            best[key] = (worth, group)
    return tuple(group for _, group in best.values())
