"""Drawings of graphs: one tile, and the panel of the graphs that the runs gossiped on; imports matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import networkx as nx
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from dpeer.exceptions import DpeerError
from dpeer.federation.policy import check_graph
from dpeer.report.style import GREY, Panel, Report, looks, new_figure, saved, wrap
from dpeer.results.groups import Group, Measure
from dpeer.sections import names
from dpeer.topology import Topology
from dpeer.topology.settings import GraphSettings, build_graph

_NUMBERED = 24
"""The largest size whose peers are numbered and whose edges have arrows."""

_ROUNDS = 4
"""The most rounds shown of a graph that changes with the round."""

_NAME = 28

_VECTORS = 2000
"""The most edges that are lines of their own in an SVG, which more would make slow to open."""

_EXACT_LIMIT = 100
"""The largest graph of a file that is laid out by Kamada and Kawai, which takes long for more peers."""


def draw_tile(axes: Axes, graph: Topology, colors: Sequence[Any] = ()) -> None:
    """Draw a graph (of one that changes, the first rounds) with its peers' numbers where they are few.

    `colors` are the peers', by rank; white without them.
    """
    axes.axis("off")
    axes.set_aspect("equal")
    axes.margins(0.15)
    points: Any = place(graph)
    few = graph.size <= _NUMBERED
    shown = min(graph.period, _ROUNDS) if graph.changing else 1
    rounds = [to_hex(one) for one in colormaps["viridis"](np.linspace(0.0, 0.9, shown))] if graph.changing else [GREY]
    size = 330 if few else max(8, 3000 // graph.size)
    for number, color in enumerate(rounds):
        edges = graph.edges_at(number) if graph.changing else graph.edges
        drawn: nx.DiGraph[int] = nx.DiGraph([(one, other) for one, other in edges])
        look: dict[str, Any] = {
            # The more lines, the thinner and paler; thinner from round to round, too, so that none hides another.
            "edge_color": color, "alpha": max(0.03, 0.9 / (1.0 + len(edges) / 400)),
            "width": (1.6 - 0.8 * number / shown) * max(0.3, 1.2 / max(1.0, len(edges) / 40) ** 0.35),
        }  # fmt: skip
        if graph.directed and few:  # bent, so that the way back is seen beside it
            nx.draw_networkx_edges(drawn, points, ax=axes, node_size=size, connectionstyle="arc3,rad=0.15", **look)
        else:
            lines = nx.draw_networkx_edges(drawn, points, ax=axes, arrows=False, **look)
            lines.set_rasterized(len(edges) > _VECTORS)
    peers: nx.Graph[int] = nx.empty_graph(graph.size)
    nx.draw_networkx_nodes(peers, points, ax=axes, node_size=size, node_color=list(colors) or "white",
                           edgecolors="#333333", linewidths=1.0 if few else 0.4)  # fmt: skip
    dark = [bool(np.dot(color[:3], (0.299, 0.587, 0.114)) < 0.5) for color in colors] or [False] * graph.size
    for color, of in (("white", True), ("black", False)) if few else ():
        labels = {rank: str(rank) for rank in peers if dark[rank] == of}
        nx.draw_networkx_labels(peers, points, labels, ax=axes, font_size=9, font_color=color)
    if graph.changing:
        legend = [Line2D([], [], color=color, lw=3, label=f"round {number}") for number, color in enumerate(rounds)]
        axes.legend(handles=legend, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=shown)
    name = graph.label if len(graph.label) <= _NAME else f"{graph.label[: _NAME - 1]}…"
    axes.set_title(f"{name}\n{_note(graph)}", fontsize=10, parse_math=False)


def _note(graph: Topology) -> str:
    if graph.changing:
        return "a new graph every round"
    edges = len(graph.edges)
    kept = "" if graph.doubly_stochastic else "; keeps the mean by p"  # of fixed graphs those of declared weights alone
    return f"{edges:,} {'directed ' if graph.directed else ''}edge{'s' if edges > 1 else ''}{kept}"


def place(graph: Topology) -> Mapping[int, NDArray[np.float64]]:
    """Each peer's place; the same at every call.

    A grid stands in rows, a star around its center, a graph of a file by distance, all others on a circle.
    """
    if graph.name == "grid":
        columns = graph.parameters["grid_shape"][1]
        return {rank: np.array([rank % columns, -(rank // columns)], np.float64) for rank in range(graph.size)}
    if graph.name == "star":
        return {0: np.zeros(2), **nx.circular_layout(nx.path_graph(range(1, graph.size)))}
    if graph.name.startswith("file:"):
        drawn: nx.Graph[int] = nx.empty_graph(graph.size)
        drawn.add_edges_from((one, other) for one, other in graph.edges)
        close: Any = nx.kamada_kawai_layout(drawn) if graph.size <= _EXACT_LIMIT else nx.spring_layout(drawn, seed=0)
        return dict(close)
    return dict(nx.circular_layout(nx.empty_graph(graph.size)))


SIZE_LIMIT = 200
"""The largest graph that is drawn: of more, dots merge."""

_TILES = 6
_COLORMAP = "cividis"
_WHITE = (1.0, 1.0, 1.0, 1.0)


def tiles(report: Report) -> Panel:
    """A tile for each group; of many groups for the first ones that pictures of lines show."""
    title, measure = "Graph", report.measure
    shown = [(group, graph) for group in report.best if (graph := _graph(group)) is not None][:_TILES]
    if not shown:
        return Panel(title, f"No graph to draw: the settings do not say, or it has over {SIZE_LIMIT} peers.")
    columns = min(len(shown), 2)
    rows = math.ceil(len(shown) / columns)
    figure = new_figure((4.4 if columns == 1 else 4.1) * rows + 0.5)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    values = [_by_rank(group, measure) for group, _ in shown]
    known = [value for found in values for value in found.values()]
    scale = Normalize(min(known), max(known)) if known else Normalize(0, 1)
    for axes, (group, graph), found in zip(grid, shown, values, strict=False):
        color = colormaps[_COLORMAP]
        draw_tile(axes, graph, [color(scale(found[rank])) if rank in found else _WHITE for rank in range(graph.size)])
        if len(shown) > 1:
            axes.set_title(f"{wrap(group.name, 34)}\n{axes.get_title()}", fontsize=10)
    for axes in grid[len(shown) :]:
        axes.set_visible(False)
    if len(known) > 1:
        bar = figure.colorbar(
            ScalarMappable(scale, _COLORMAP), ax=list(grid), location="bottom", shrink=0.7, aspect=35, pad=0.03
        )
        bar.set_label(f"{measure.axis} at the end")
    changing = any(graph.changing for _, graph in shown)
    caption = (
        "Peers, with their ranks where they are few, and the edges along which bodies travel; a peer's color is its "
        f"{measure.name} at the end{' (mean over seeds)' if any(len(g.runs) > 1 for g, _ in shown) else ''}. "
        + ("A graph that changes with the round is shown by its first rounds, a color for each. " if changing else "")
        + (
            "A white peer has none. "
            if any(len(f) < graph.size for f, (_, graph) in zip(values, shown, strict=True))
            else ""
        )
        + (f"The first {_TILES}. " if len(report.best) > _TILES else "")
        + report.remark
    )
    alt = "Drawings of graphs. " + " ".join(f"{g.label}: {graph.label} of {graph.size} peers." for g, graph in shown)
    return Panel(title, caption, alt, figure)


def _graph(group: Group) -> Topology | None:
    """The graph of a run's settings; None if they name none, or it cannot be built or drawn."""
    if group.size > SIZE_LIMIT:
        return None
    settings = group.runs[0].settings
    asked = {key: settings[key] for key in names(GraphSettings) if settings.get(key) is not None and key != "weights"}
    if "topology" not in asked:
        return None
    try:
        check_graph(asked["topology"])
        # With the default weights: others may not suit the graph, and are not seen.
        return build_graph(GraphSettings.model_validate({**asked, "size": group.size}))
    except (DpeerError, OSError, ValueError):
        return None  # of a file that is not here, say


def _by_rank(group: Group, measure: Measure) -> dict[int, float]:
    found = [run.finals(measure.key) for run in group.runs]
    return {rank: fmean(each[rank] for each in found if rank in each) for rank in sorted(set().union(*found))}


def picture(graph: Topology, suffix: str) -> bytes:
    """The picture of `dpeer topology show --plot` as a file's content, png or svg."""
    with looks():
        figure = Figure(figsize=(5.2, 5.6), layout="constrained")
        figure.suptitle(f"{graph.size} peers, {graph.weights_rule} weights", fontsize=12)
        draw_tile(figure.subplots(), graph)
        return saved(figure, suffix)
