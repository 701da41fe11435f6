"""The picture of `dpeer topology show --plot`: a graph, its spectrum, and its disagreement; imports matplotlib."""

from __future__ import annotations

import io
import math
import warnings

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from dpeer.report.graphs import draw_tile, named
from dpeer.report.style import COLORS, tidy
from dpeer.topology import Analysis, Topology, analyse, disagreement, spectrum

_SETTINGS = {
    "font.size": 10.0,
    "text.parse_math": False,  # a dollar sign in a file's name is one
    "svg.fonttype": "none",  # text that can be searched and read aloud
    "svg.hashsalt": "dpeer",  # else the file differs from call to call
}
_DPI = 150

BOTTOM = 1e-4
"""The least disagreement shown."""

_FEWEST = 5


def picture(graph: Topology, suffix: str) -> bytes:
    """The picture as a file's content.

    Args:
        graph: The graph.
        suffix: Which kind of file, png or svg.
    """
    # The user's settings for other pictures do not hold: dark lines could end up on a dark ground.
    with matplotlib.style.context(["default", _SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a file's name in letters the font has not
        file = io.BytesIO()
        metadata = {"Date": None} if suffix == "svg" else None
        _figure(graph).savefig(file, format=suffix, dpi=_DPI, metadata=metadata)
        return file.getvalue()


def _figure(graph: Topology) -> Figure:
    analysis = analyse(graph)
    figure = Figure(figsize=(14.0, 5.2), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))
    figure.suptitle(f"{graph.size} peers, {graph.weights_rule} weights\n{_described(analysis)}", fontsize=12)
    tile, values, left = figure.subplots(1, 3)
    draw_tile(tile, graph)
    _draw_spectrum(values, spectrum(graph), analysis.period)
    rounds = max(_FEWEST, math.ceil(1.15 * analysis.rounds))
    _draw_disagreement(left, disagreement(graph, rounds))
    return figure


def _draw_spectrum(axes: Axes, values: NDArray[np.float64], period: int) -> None:
    size = len(values)
    axes.plot(np.arange(1, size + 1), values, color=COLORS[0], marker="o", ms=4, markevery=max(1, size // 50))
    axes.set_title("Spectrum")
    axes.set_xlabel("singular value, from the largest")
    axes.set_ylabel("singular value of W" + (" (of a period's product)" if period > 1 else ""))
    axes.set_xlim(1 - 0.02 * size, size * 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(-0.03, 1.05)
    tidy(axes)


def _draw_disagreement(axes: Axes, left: NDArray[np.float64]) -> None:
    below = np.flatnonzero(left < BOTTOM)
    shown = left[: below[0] + 1] if len(below) else left
    rounds, end = np.arange(len(shown)), len(shown) - 1
    if shown[-1] == 0.0:
        # No slope leads there: a line to the bottom would seem to pass 1e-3 before the round is over.
        rounds, shown = np.append(rounds, end), np.concatenate([shown[:-1], [shown[-2], BOTTOM]])
        words = "exactly the average from here on"
        side, shift = ("left", 12) if 2 * end < len(left) else ("right", -12)
        axes.annotate(words, (end, BOTTOM), (shift, 8), textcoords="offset points", ha=side, fontsize=9)
        axes.plot([end], [BOTTOM], marker="v", ms=11, color=COLORS[0], mec="white", clip_on=False, zorder=5)
    axes.plot(rounds, shown, color=COLORS[0], marker="o", ms=4, markevery=max(1, end // 8))
    axes.set_xlim(0.0, len(left) - 1)
    axes.set_yscale("log")
    axes.set_ylim(BOTTOM, 1.3)
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g}" if value > 0.005 else f"1e{math.log10(value):.0f}")
    )
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.axhline(1e-3, color="#444444", lw=0.8, zorder=1)
    axes.set_title("Disagreement over rounds")
    axes.set_xlabel("rounds of gossip")
    axes.set_ylabel("worst disagreement left (1 at the start)")
    tidy(axes)


def _described(analysis: Analysis) -> str:
    together = f" of {analysis.period} rounds" if analysis.period > 1 else ""
    fewest, most = analysis.degree_min, analysis.degree_max
    messages = "1 message" if most == 1 else f"{most} messages" if fewest == most else f"{fewest}-{most} messages"
    gap = f"{analysis.spectral_gap:.4f}" if analysis.spectral_gap >= 0.001 else f"{analysis.spectral_gap:.1e}"
    rounds = "1 round" if analysis.rounds == 1 else f"{analysis.rounds:,} rounds"
    return f"{named(analysis.topology)}: gap {gap}{together}, {messages} a round, 1e-3 after {rounds}"
