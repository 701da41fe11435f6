"""Panel of a round's time: training, waiting for the line, other waiting, mixing; and receiving behind other work."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from matplotlib.patches import Patch

from dpeer.report.facets import LINES, Report
from dpeer.report.style import GREY, Panel, legend, name_rows, new_figure
from dpeer.results.groups import Group
from dpeer.results.records import Line, line_wait
from dpeer.results.units import duration

_ROWS = 40
"""The most rows of a picture."""

_PARTS = (
    ("training", "#0072B2"), ("waiting for the line", "#D55E00"), ("other waiting", "#E69F00"), ("mixing", "#009E73"),
)  # fmt: skip

_HIDDEN = "bodies coming in meanwhile"

Parts = tuple[float, float, float, float, float]
"""Seconds of a round: training, waiting for the line, other waiting, mixing; and those in which bodies came in while
something else was done."""


def round_times(report: Report) -> Panel | None:
    """The mean parts of a round, a row for each group; None where no body came in pieces, so that no line is seen."""
    found = [(group, parts) for group in report.groups if (parts := parts_of(group)) is not None]
    if not any(parts[1] + parts[4] for _, parts in found):
        return None
    shown = sorted(found, key=lambda row: -sum(row[1][:4]))[-_ROWS:] if len(found) > LINES else found[::-1]
    figure = new_figure(1.6 + max(0.5 * len(shown), 0.9))
    axes = figure.subplots()
    for row, (_, parts) in enumerate(shown):
        begin = 0.0
        for seconds, (_, color) in zip(parts[:4], _PARTS, strict=True):
            axes.barh(row, seconds, left=begin, height=0.5, color=color, lw=0)
            begin += seconds
        axes.barh(row + 0.36, parts[4], height=0.12, color=GREY, lw=0)
    name_rows(axes, [group.name for group, _ in shown])
    axes.set_xlim(left=0.0)
    axes.set_xlabel("seconds of a round")
    kinds = [Patch(color=color, label=name) for name, color in (*_PARTS, (_HIDDEN, GREY))]
    legend(figure, {}, kinds)
    caption = (
        "What a round is made of, in the mean over peers and rounds; evaluations and the disk are left out. A peer "
        "waits for the line while neighbors' bodies come in and it does nothing else. Thin: bodies that came in behind "
        "training, as with --overlap 1. docs/running.md, Slow lines, has what helps. "
    )
    return Panel("Time of a round", caption, f"Bars of a round's parts. {' '.join(map(_in_words, shown))}", figure)


def _in_words(row: tuple[Group, Parts]) -> str:
    group, parts = row
    total = sum(parts[:4])
    share = f"{parts[1] / total:.0%}" if total else "nothing"
    return f"{group.label}: {duration(total)}, {share} of it waiting for the line; {duration(parts[4])} hidden."


def parts_of(group: Group) -> Parts | None:
    """The mean parts of a round over peers, rounds and seeds; None where they were not recorded."""
    every = [
        parts
        for run in group.runs
        for peer in run.peers.values()
        for line in peer.entries.values()
        if (parts := _parts(line)) is not None
    ]
    return None if not every else _means(every)


def _means(every: Sequence[Parts]) -> Parts:
    training, line, other, mixing, hidden = (fmean(one[place] for one in every) for place in range(5))
    return training, line, other, mixing, hidden


def _parts(line: Line) -> Parts | None:
    train, exchange, mix = line.train_seconds, line.exchange_seconds, line.mix_seconds
    received, hidden = line.receive_seconds, line.hidden_seconds
    if not line.active or train is None or exchange is None or mix is None or received is None or hidden is None:
        return None
    waits = line_wait(received, hidden, exchange)
    return train, waits, exchange - waits, mix, hidden
