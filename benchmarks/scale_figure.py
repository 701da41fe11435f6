"""The picture of the results of `scale.py`: round time by peers, by neighbors and by bytes.

python benchmarks/scale.py --json > scale.json
python benchmarks/scale_figure.py scale.json FILE.svg|FILE.png
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

Found = Mapping[str, Sequence[Mapping[str, float]]]

OURS, RAW = "#1f5a99", "#8a8a8a"


def draw(found: Found, out: Path) -> None:
    """Three panels, 900 pixels wide; what was left out is not there."""
    mpl.rcParams["svg.hashsalt"] = "dpeer"
    figure = Figure(figsize=(9, 3.4), dpi=100, layout="constrained")
    by_peers, by_degree, by_bytes = figure.subplots(1, 3)

    _plot(by_peers, found["in process"], "ms", "o-", "#c2571a", "one process, 10k parameters")
    _both(by_peers, found["processes"], "a process each, 1.2M parameters")
    by_peers.set(xscale="log", yscale="log", xlabel="peers on a ring")

    _both(by_degree, found["degree"], "dpeer, 9 peers, 1.2M parameters")
    by_degree.set(xlabel="neighbors of each peer", ylim=(0, None), xlim=(0, 9))

    _both(by_bytes, [{**point, "at": 4 * point["at"]} for point in found["bytes"]], "dpeer, 2 peers")
    if found["bytes"]:
        last = found["bytes"][-1]
        ends = [4 * found["bytes"][0]["at"], 4 * last["at"]]
        by_bytes.plot(ends, [last["ms"] * x / ends[1] for x in ends], ":", color="black", lw=1, label="linear in bytes")
    by_bytes.set(xscale="log", yscale="log", xlabel="a body")
    by_bytes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _bytes(value)))

    for panel, title in ((by_peers, "Peers"), (by_degree, "Neighbors"), (by_bytes, "Bytes")):
        panel.set_title(title, fontsize=11)
        panel.set_ylabel("a round, ms")
        panel.grid(linewidth=0.4)
        panel.tick_params(labelsize=8)
        panel.legend(fontsize=8, loc="upper left", framealpha=1, edgecolor="white", borderpad=0.2, handlelength=1.4)
        bottom, top = panel.get_ylim()  # room for the legend
        panel.set_ylim(bottom, top * (top / bottom) ** 0.4 if panel.get_yscale() == "log" else 1.35 * top)
        if panel.get_yscale() == "log":
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    by_peers.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def _both(panel: Axes, points: Sequence[Mapping[str, float]], label: str) -> None:
    _plot(panel, points, "ms", "o-", OURS, label)
    _plot(panel, points, "raw_ms", "s--", RAW, "raw sockets")


def _plot(panel: Axes, points: Sequence[Mapping[str, float]], key: str, style: str, color: str, label: str) -> None:
    places, heights = [point["at"] for point in points], [point[key] for point in points]
    panel.plot(places, heights, style, color=color, markersize=4, label=label)


def _bytes(value: float) -> str:
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= factor:
            return f"{value / factor:g} {unit}"
    return f"{value:g} B"


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
