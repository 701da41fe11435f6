"""The picture of `dpeer topology plot`: graphs, their spectra, and their disagreement; imports matplotlib."""

from __future__ import annotations

import io
import math
import statistics
import warnings
from dataclasses import dataclass

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from dpeer.report.graphs import draw_tile, named
from dpeer.report.style import COLORS, tidy
from dpeer.topology import Analysis, AnyTopology, TimeVaryingTopology, analyse, disagreement, spectrum

_SETTINGS = {
    "font.size": 10.0,
    "text.parse_math": False,  # a dollar sign in a file's name is one
    "svg.fonttype": "none",  # text that can be searched and read aloud
    "svg.hashsalt": "dpeer",  # else the file differs from call to call
}
_DPI = 150
_WIDTH = 14.0
_COLUMNS = 4

_HUES = 7
_LINES = ("-", "--", "-.", (0, (1, 1.2)))
_MARKERS = "osD^vXP<>*hp"


BOTTOM = 1e-4
"""The least disagreement shown."""

_ROUNDS = 150
_MESSAGES = 500
_FEWEST = 5


@dataclass(frozen=True)
class Curve:
    """One graph of the picture.

    Attributes:
        graph: The graph.
        analysis: The graph's gap, and the rounds and messages that agreement takes.
        spectrum: The singular values of the graph's matrix, or of a period's product, largest first.
        left: The worst disagreement left after 0, 1, ... rounds; ends where it falls below `BOTTOM`.
    """

    graph: AnyTopology
    analysis: Analysis
    spectrum: NDArray[np.float64]
    left: NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """All graphs of the picture.

    Attributes:
        curves: The graphs, in the order asked for.
        rounds: How many rounds are shown.
        messages: How many messages a peer are shown.
    """

    curves: list[Curve]
    rounds: int
    messages: float


def measure(graphs: list[AnyTopology], rounds: int | None) -> Measured:
    """Analyse graphs, and choose how many rounds to show unless that was asked for."""
    found = [analyse(graph) for graph in graphs]
    if rounds is None:
        shown = math.ceil(_enough([analysis.rounds for analysis in found], _ROUNDS))
        messages = _enough([analysis.rounds * analysis.bytes_per_round_factor for analysis in found], _MESSAGES)
    else:
        shown = rounds
        messages = rounds * statistics.median(analysis.bytes_per_round_factor for analysis in found)
    curves = [
        Curve(graph, analysis, spectrum(graph), _left(graph, analysis, shown, messages))
        for graph, analysis in zip(graphs, found, strict=True)
    ]
    return Measured(curves, shown, messages)


def _enough(needed: list[float], most: float) -> float:
    """A range of rounds in which all graphs but the slowest quarter agree; these would squash the others.

    Args:
        needed: The rounds that each graph needs.
        most: A range not to exceed, unless no graph agrees in it.
    """
    ordered = sorted(needed)
    typical = ordered[round(0.75 * (len(ordered) - 1))]
    return max(_FEWEST, min(1.15 * typical, max(most, 1.2 * ordered[0])))


def _left(graph: AnyTopology, analysis: Analysis, rounds: int, messages: float) -> NDArray[np.float64]:
    """Disagreement over the rounds shown, or until it is too small to be shown."""
    last = max(rounds, math.ceil(messages / analysis.bytes_per_round_factor))
    if isinstance(graph, TimeVaryingTopology):
        last = min(last, 2 * analysis.rounds + 5)  # a graph that changes costs more the longer it is followed
    left = disagreement(graph, last)
    below = np.flatnonzero(left < BOTTOM)
    return left[: below[0] + 1] if len(below) else left


def _color(number: int) -> str:
    return COLORS[number % _HUES]


def _line(number: int, label: str = "") -> Line2D:
    """A line without data in the look of one graph: the twelve differ from each other even without color."""
    marker, dashes = _MARKERS[number % len(_MARKERS)], _LINES[number % len(_LINES)]
    return Line2D([], [], color=_color(number), ls=dashes, lw=1.6, marker=marker, ms=5, label=label)


def _add_line(axes: Axes, number: int, x: np.ndarray, y: np.ndarray, seen: int) -> None:
    """Add a graph's line, with about eight markers on the `seen` points within the axes, at places of its own."""
    line = _line(number)
    line.set_data(x, y)
    every = max(1, seen // 8)
    line.set_markevery((number % every, every))
    axes.add_line(line)


def picture(measured: Measured, suffix: str) -> bytes:
    """The picture as a file's content.

    Args:
        measured: The graphs.
        suffix: Which kind of file, png or svg.
    """
    # The user's settings for other pictures do not hold: dark lines could end up on a dark ground.
    with matplotlib.style.context(["default", _SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a file's name in letters the font has not
        file = io.BytesIO()
        metadata = {"Date": None} if suffix == "svg" else None
        _figure(measured).savefig(file, format=suffix, dpi=_DPI, metadata=metadata)
        return file.getvalue()


def _figure(measured: Measured) -> Figure:
    curves = measured.curves
    rows = math.ceil(len(curves) / _COLUMNS)
    columns = math.ceil(len(curves) / rows)
    heights = [3.6 * rows, 4.2, 0.45 + 0.24 * math.ceil((len(curves) + 1) / 2)]
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.6), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    figure.suptitle(f"{curves[0].graph.size} peers, {_weights(curves)}", fontsize=14)
    grid = figure.add_gridspec(3, 1, height_ratios=heights)
    above, middle, below = (figure.add_subfigure(grid[row]) for row in range(3))
    tiles = above.subplots(rows, columns, squeeze=False).ravel()
    for number, axes in enumerate(tiles):
        if number < len(curves):
            draw_tile(axes, curves[number].graph, _color(number))
        else:
            axes.set_axis_off()
    spectra, by_rounds, by_messages = middle.subplots(1, 3)
    _draw_spectra(spectra, curves)
    _draw_disagreement(by_rounds, measured, per_message=False)
    _draw_disagreement(by_messages, measured, per_message=True)
    _draw_legend(below, curves)
    return figure


def _weights(curves: list[Curve]) -> str:
    symmetric = {curve.graph.weights_rule for curve in curves if not curve.graph.directed}
    rules = " and ".join(symmetric) or "uniform"
    mixed = symmetric and any(curve.graph.directed for curve in curves)
    return f"{rules} weights" + (" (uniform where directed)" if mixed else "")


def _draw_spectra(axes: Axes, curves: list[Curve]) -> None:
    size = curves[0].graph.size
    for number, curve in enumerate(curves):
        _add_line(axes, number, np.arange(1, size + 1), curve.spectrum, size)
    changing = any(curve.analysis.period > 1 for curve in curves)
    axes.set_title("Spectrum")
    axes.set_xlabel("singular value, from the largest")
    axes.set_ylabel("singular value of W" + (" (of a period's product)" if changing else ""))
    axes.set_xlim(1 - 0.02 * size, size * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(-0.03, 1.05)
    tidy(axes)


def _draw_disagreement(axes: Axes, measured: Measured, *, per_message: bool) -> None:
    end = measured.messages if per_message else float(measured.rounds)
    for number, curve in enumerate(measured.curves):
        x = np.arange(len(curve.left)) * (curve.analysis.bytes_per_round_factor if per_message else 1.0)
        y = curve.left
        if y[-1] == 0.0:
            # No slope leads there: a line to the bottom would seem to pass 1e-3 before the round is over.
            x, y = np.append(x, x[-1]), np.concatenate([y[:-1], [y[-2], BOTTOM]])
            if x[-1] <= end:
                axes.plot(x[-1:], y[-1:], marker="v", ms=11, color=_color(number), mec="white", clip_on=False, zorder=5)
        _add_line(axes, number, x, y, int(np.sum(x <= end)))
    axes.set_yscale("log")
    axes.set_ylim(BOTTOM, 1.3)
    axes.set_xlim(0.0, end)
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if value > 0.005 else f"1e{math.log10(value):.0f}")
    )
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.axhline(1e-3, color="#444444", lw=0.8, zorder=1)
    axes.set_title("Disagreement by messages sent" if per_message else "Disagreement over rounds")
    axes.set_xlabel("messages sent per peer (mean)" if per_message else "rounds of gossip")
    axes.set_ylabel("worst disagreement left (1 at the start)")
    tidy(axes)


def _draw_legend(figure: SubFigure, curves: list[Curve]) -> None:
    """Draw a legend for the three panels, with each graph's line and figures."""
    handles = [_line(number, _described(curve)) for number, curve in enumerate(curves)]
    if any(0.0 in curve.left for curve in curves):
        handles.append(
            Line2D([], [], ls="", marker="v", ms=10, color="#777777", label="exactly the average from here on")
        )
    figure.legend(
        handles=handles, loc="center", ncols=2, fontsize=9.5, frameon=False, handlelength=4.0, columnspacing=3.0
    )


def _described(curve: Curve) -> str:
    analysis = curve.analysis
    together = f" of {analysis.period} rounds" if analysis.period > 1 else ""
    fewest, most = analysis.degree_min, analysis.degree_max
    messages = "1 message" if most == 1 else f"{most} messages" if fewest == most else f"{fewest}-{most} messages"
    gap = f"{analysis.spectral_gap:.4f}" if analysis.spectral_gap >= 0.001 else f"{analysis.spectral_gap:.1e}"
    rounds = "1 round" if analysis.rounds == 1 else f"{analysis.rounds:,} rounds"
    return f"{named(analysis.topology)}: gap {gap}{together}, {messages} a round, 1e-3 after {rounds}"
