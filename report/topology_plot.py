"""The picture of `dpeer topology show --plot`; imports matplotlib."""

from __future__ import annotations

import io
import warnings

import matplotlib.style
from matplotlib.figure import Figure

from dpeer.report.graphs import draw_tile
from dpeer.topology import Topology

_SETTINGS = {
    "font.size": 10.0,
    "text.parse_math": False,  # a dollar sign in a file's name is one
    "svg.fonttype": "none",  # text that can be searched and read aloud
    "svg.hashsalt": "dpeer",  # else the file differs from call to call
}
_DPI = 150


def picture(graph: Topology, suffix: str) -> bytes:
    """The picture as a file's content.

    Args:
        graph: The graph.
        suffix: Which kind of file, png or svg.
    """
    # The user's settings for other pictures do not hold: dark lines could end up on a dark ground.
    with matplotlib.style.context(["default", _SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a file's name in letters the font has not
        figure = Figure(figsize=(5.2, 5.6), layout="constrained")
        figure.suptitle(f"{graph.size} peers, {graph.weights_rule} weights", fontsize=12)
        draw_tile(figure.subplots(), graph)
        file = io.BytesIO()
        figure.savefig(file, format=suffix, dpi=_DPI, metadata={"Date": None} if suffix == "svg" else None)
        return file.getvalue()
