"""Drawings of graphs: one tile, and the panel of the graphs that the runs gossiped on; imports matplotlib."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

import networkx as nx
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from numpy.typing import NDArray

from dpeer.exceptions import DpeerError
from dpeer.report.facets import Report
from dpeer.report.style import Panel, new_figure, wrap
from dpeer.results.groups import Group, Measure
from dpeer.sections import names
from dpeer.topology import Topology
from dpeer.topology.settings import GraphSettings, build_graph

Points = NDArray[np.float64]

_NUMBERED = 24
"""The largest size whose peers are numbered and whose edges have arrows."""

_PERIOD = 10
"""The most rounds shown of a graph that repeats: a period of a thousand peers'."""

_ROUNDS = 4
"""The most rounds shown of a graph that never repeats."""

_DRAWN = 20_000
"""The most edges drawn: more take long, and look no different."""

_NAME = 28

_VECTORS = 2000
"""The most edges that are lines of their own in an SVG, which more would make slow to open."""

_STUB = 0.45
_EXACT_LIMIT = 100

# Where a binary digit of a hypercube's rank moves a peer. Found by search, like the numbers further down: directions
# of equal length would let peers fall together or lie on edges that are not theirs.
_DIRECTIONS = ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5))
_FOUR_DIRECTIONS = ((1.0, 0.0), (0.0, 1.0), (0.43, -0.21), (-0.21, 0.43))


def draw_tile(axes: Axes, graph: Topology, color: str) -> None:
    """Draw a graph, its peers in `color`."""
    points = place(graph)
    axes.set_aspect("equal")
    axes.set_xlim(-1.3, 1.3)
    axes.set_ylim(-1.3, 1.3)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    if graph.changing:
        note = _draw_rounds(axes, graph, points)
    else:
        edges = graph.edges
        note = f"{len(edges):,} {'directed ' if graph.directed else ''}edge{'s' if len(edges) > 1 else ''}"
        if len(edges) > _DRAWN:
            note += f", {_DRAWN:,} of them drawn at random"
            edges = [edges[drawn] for drawn in np.random.default_rng(0).choice(len(edges), _DRAWN, replace=False)]
        _draw_edges(axes, graph, edges, points, color, 1.0)
    _draw_peers(axes, points, color)
    axes.set_title(named(graph.name), fontsize=11, fontweight="bold", pad=2)
    axes.set_xlabel("\n".join([note, _details(graph)]), fontsize=8.5, labelpad=2)


def named(name: str) -> str:
    """A graph's name, cut where a file's name would be too long."""
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _draw_rounds(axes: Axes, graph: Topology, points: Points) -> str:
    """Draw the edges of the first rounds, a color for each; returns a note on which they are."""
    repeats = graph.repeats is not None
    shown = min(graph.period, _PERIOD) if repeats else max(2, min(graph.period, _ROUNDS))
    colors = colormaps["viridis"](np.linspace(0.0, 0.9, shown))
    handles = []
    for number, color in enumerate(colors):
        # Thinner from round to round, so that an edge that comes again does not hide the first.
        _draw_edges(axes, graph, graph.edges_at(number), points, color, 1.6 - 0.8 * number / shown)
        handles.append(Line2D([], [], color=color, lw=3, label=str(number)))
    axes.legend(
        handles=handles, fontsize=8, loc="lower center", ncols=shown, frameon=False, borderaxespad=0.0, borderpad=0.0,
        handlelength=0.8, handletextpad=0.3, columnspacing=0.7,
    )  # fmt: skip
    rounds = f"rounds 0-{shown - 1}" if shown > 1 else "round 0"
    if repeats:
        return f"{rounds} of {graph.period}" if shown < graph.period else f"{rounds}, then again from 0"
    return f"{rounds}, drawn anew in every round"


def _draw_edges(axes: Axes, graph: Topology, edges: list[list[int]], points: Points, color: Any, width: float) -> None:
    # The more lines, the thinner and paler, so that many do not run together; those of a grid do not cross.
    lines = len(edges) / 8 if "grid_shape" in graph.parameters else len(edges)
    width *= max(0.3, 1.2 / max(1.0, lines / 40) ** 0.35)
    look: dict[str, Any] = {"color": color, "alpha": max(0.03, 0.9 / (1.0 + lines / 400)), "linewidth": width}
    straight, around = segments(graph, edges, points)
    if graph.directed and graph.size <= _NUMBERED:
        for start, end in straight:
            # Bent, so that the way back and an edge past a neighbor on the circle are seen beside it.
            bent: dict[str, Any] = {"connectionstyle": "arc3,rad=0.15", "shrinkA": 7, "shrinkB": 7}
            axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=8, **bent, **look))
        return
    axes.add_collection(LineCollection(list(straight), rasterized=len(edges) > _VECTORS, **look))
    axes.add_collection(LineCollection(list(around), linestyle=(0, (2, 1.5)), **{**look, "alpha": 1.0}))


def _draw_peers(axes: Axes, points: Points, color: str) -> None:
    if len(points) > _NUMBERED:
        axes.plot(
            points[:, 0], points[:, 1], ls="", marker="o", ms=max(1.0, 36 / len(points) ** 0.5), mec="none", color=color
        )
        return
    axes.plot(points[:, 0], points[:, 1], ls="", marker="o", ms=14, mfc="white", mec=color, mew=1.4, zorder=3)
    for rank, (x, y) in enumerate(points):
        axes.annotate(str(rank), (x, y), ha="center", va="center_baseline", fontsize=7.5, zorder=4)


def _details(graph: Topology) -> str:
    """The graph's options, and remarks that the drawing needs."""
    found = []
    for key, value in graph.parameters.items():
        if key == "grid_shape":
            found.append("{} x {}".format(*value))
        elif isinstance(value, int | float):
            found.append(f"{key.replace('_', ' ')} {value:.3g}")
    if graph.name == "torus":
        found.append("dashed edges go around the border")
    if not graph.doubly_stochastic:
        found.append("average not kept")
    return ", ".join(found)


def place(graph: Topology) -> Points:
    """Every peer's place, (size, 2), centred and with coordinates from -1 to 1; the same at every call."""
    if shape := _lattice(graph):
        points = _rows_and_columns(*shape)
    elif graph.name == "star":
        points = np.concatenate([np.zeros((1, 2)), _circle(graph.size - 1)])
    elif graph.name == "hypercube":
        points = _shadow_of_cube(graph.size)
    elif graph.name.startswith("file:"):
        points = _by_distance(graph)
    else:
        points = _circle(graph.size)
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    return np.asarray(points / np.abs(points).max())


def segments(graph: Topology, edges: list[list[int]], points: Points) -> tuple[Points, Points]:
    """The lines to draw for edges: straight ones, and the ends of those that go around a torus's border.

    Returns:
        Two arrays (lines, 2, 2). An edge around the border leaves two short lines in the second: drawn across, it
        would lie upon the edges of its whole row.
    """
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    lines = points[ends]
    shape = _lattice(graph)
    if graph.name != "torus" or shape is None:
        return lines, np.zeros((0, 2, 2))
    columns = shape[1]
    apart = np.abs(ends[:, 0] // columns - ends[:, 1] // columns) + np.abs(ends[:, 0] % columns - ends[:, 1] % columns)
    inside, around = lines[apart == 1], lines[apart > 1]
    along = around[:, 1] - around[:, 0]
    spacing = np.linalg.norm(points[1] - points[0])
    stub = _STUB * spacing * along / np.linalg.norm(along, axis=1, keepdims=True)
    first = np.stack([around[:, 0], around[:, 0] - stub], axis=1)
    last = np.stack([around[:, 1], around[:, 1] + stub], axis=1)
    return inside, np.concatenate([first, last])


def _lattice(graph: Topology) -> tuple[int, int] | None:
    """The rows and columns of a grid or torus; None for other graphs, and for a torus of one row, which is a ring."""
    rows, columns = graph.parameters.get("grid_shape", (0, 0))
    if rows * columns == 0 or (graph.name == "torus" and 1 in (rows, columns)):  # a torus of one row is a ring
        return None
    return rows, columns


def _circle(size: int) -> Points:
    """Places on a circle: rank 0 at the top, the others clockwise."""
    angles = math.pi / 2 - 2 * math.pi * np.arange(size) / size
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _rows_and_columns(rows: int, columns: int) -> Points:
    ranks = np.arange(rows * columns)
    return np.stack([ranks % columns, -(ranks // columns)], axis=1).astype(np.float64)


def _shadow_of_cube(size: int) -> Points:
    """Places for a hypercube: every binary digit of the rank moves a peer in a direction of its own."""
    digits = np.arange(size.bit_length() - 1)
    if len(digits) <= len(_FOUR_DIRECTIONS):
        directions = np.array(_FOUR_DIRECTIONS if len(digits) == len(_FOUR_DIRECTIONS) else _DIRECTIONS[: len(digits)])
    else:
        angles = 1.077 * np.pi * (digits + 0.5) / len(digits)
        lengths = 1.0 + 1.511 * (digits * 0.257 % 1.0)
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=1) * lengths[:, None]
    return np.asarray((np.arange(size)[:, None] >> digits & 1) @ directions)


def _by_distance(graph: Topology) -> Points:
    """Places for other graphs: peers that are few edges apart stand close together."""
    drawn: nx.Graph[int] = nx.Graph()
    drawn.add_nodes_from(range(graph.size))
    drawn.add_edges_from((one, other) for one, other in graph.edges)
    # Kamada and Kawai's places are better, and take minutes for hundreds of peers.
    found = nx.kamada_kawai_layout(drawn) if graph.size <= _EXACT_LIMIT else nx.spring_layout(drawn, seed=0)
    return np.array([found[rank] for rank in range(graph.size)], dtype=np.float64)


SIZE_LIMIT = 1000
"""The largest graph that is drawn: of more, dots merge."""

_TILES = 6
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
        + (f"Of {len(groups)} groups the best on each graph, {_TILES} graphs at most. " if len(groups) > _TILES else "")
    )
    alt = "Drawings of graphs. " + " ".join(f"{g.label}: {graph.name} of {graph.size} peers." for g, graph in shown)
    return Panel(title, caption, alt, figure)


def _draw(axes: Axes, graph: Topology, found: dict[int, float], scale: Normalize) -> None:
    draw_tile(axes, graph, "#555555")
    # The text below a tile is small beside seven others; here it has room.
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


def _graph(group: Group) -> Topology | None:
    """The graph of a run's settings; None if they name none, or it cannot be built or drawn."""
    if group.size > SIZE_LIMIT:
        return None
    settings = group.runs[0].settings
    asked = {key: settings[key] for key in names(GraphSettings) if settings.get(key) is not None and key != "weights"}
    if "topology" not in asked:
        return None
    try:
        # With the default weights: others may not suit the graph, and are not seen.
        return build_graph(GraphSettings.model_validate({**asked, "size": group.size}))
    except (DpeerError, OSError, ValueError):
        return None  # of a file that is not here, say


def _by_rank(group: Group, measure: Measure) -> dict[int, float]:
    found = [run.finals(measure.key) for run in group.runs]
    return {rank: fmean(each[rank] for each in found if rank in each) for rank in sorted(set().union(*found))}


def _best_on_each(groups: tuple[Group, ...], measure: Measure) -> tuple[Group, ...]:
    best: dict[str, Group] = {}
    for group in groups:
        key = repr([group.runs[0].settings.get(key) for key in names(GraphSettings)])
        if key not in best or measure.standing(group) > measure.standing(best[key]):
            best[key] = group
    return tuple(best.values())
