"""Panel of what a round costs: seconds by part, and megabytes that a peer sends."""

from __future__ import annotations

from statistics import fmean

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dpeer.report.shown import Report
from dpeer.report.style import GREY, Panel, legend, name_rows, new_figure, tidy
from dpeer.results.groups import Group, sent_in_a_round
from dpeer.results.records import RoundRecord
from dpeer.results.units import duration, size

_ROWS = 40
"""The most rows of a picture."""

_PARTS = (("training", "#0072B2"), ("waiting", "#E69F00"), ("mixing", "#009E73"))

_MEGABYTE = 1e6

Parts = tuple[float, ...]
"""Seconds of a round: training, waiting, mixing."""


def time_and_bytes(report: Report) -> Panel | None:
    """The mean parts of a round and the bytes that it sends, a row for each group; None where neither was recorded."""
    found = [(group, parts_of(group), sent_in_a_round(group)) for group in report.groups]
    found = [row for row in found if row[1] or row[2]]
    if not found:
        return None
    shown = found[:_ROWS]
    figure = new_figure(1.6 + max(0.4 * len(shown), 0.7))
    seconds, megabytes = figure.subplots(1, 2, width_ratios=(3, 2))
    for row, (_, parts, sent) in enumerate(shown):
        begin = 0.0
        for part, (_, color) in zip(parts or (), _PARTS, strict=False):
            seconds.barh(row, part, left=begin, height=0.5, color=color, lw=0)
            begin += part
        mean, most = sent or (0.0, 0.0)
        megabytes.barh(row, mean / _MEGABYTE, height=0.5, color=GREY, alpha=0.5, lw=0)
        megabytes.plot([most / _MEGABYTE], [row], ls="", marker="|", ms=14, mew=2, color=GREY)
    name_rows(seconds, [group.name for group, _, _ in shown])
    tidy(megabytes)
    megabytes.grid(axis="y", visible=False)
    megabytes.set_yticks([])
    megabytes.set_ylim(seconds.get_ylim())
    seconds.set_xlabel("seconds of a round")
    megabytes.set_xlabel("MB that a peer sends in a round")
    for axes in (seconds, megabytes):
        axes.set_xlim(left=0.0)
    busiest = Line2D([], [], ls="", marker="|", ms=14, mew=2, color=GREY, label="busiest peer")
    legend(figure, {}, [*(Patch(color=color, label=name) for name, color in _PARTS), busiest])
    caption = (
        "A round in the mean over peers and rounds; evaluations and the disk are left out. A megabyte is 1,000,000 "
        "bytes; bodies and their headers are counted, handshakes are not. "
    ) + (f"The first {_ROWS} of {len(found)}; the table has all." if len(found) > _ROWS else "")
    alt = "Bars of a round's seconds and megabytes. " + " ".join(_in_words(*row) for row in shown)
    return Panel("Time and bytes of a round", caption, alt, figure)


def _in_words(group: Group, parts: Parts | None, sent: tuple[float, float] | None) -> str:
    words = []
    if parts is not None:
        named = ", ".join(f"{name} {duration(part)}" for part, (name, _) in zip(parts, _PARTS, strict=True))
        words.append(f"{duration(sum(parts))} ({named})")
    if sent is not None:
        words.append(f"{size(round(sent[0]))} sent, {size(round(sent[1]))} by the busiest peer")
    return f"{group.label}: {'; '.join(words)}."


def parts_of(group: Group) -> Parts | None:
    """The mean parts of a round over peers, rounds and seeds; None where they were not recorded."""
    lines = [line for run in group.runs for peer in run.peers.values() for line in peer.entries.values()]
    every = [parts for line in lines if (parts := _parts(line)) is not None]
    return tuple(map(fmean, zip(*every, strict=True))) or None


def _parts(line: RoundRecord) -> Parts | None:
    train, exchange, mix = line.train_seconds, line.exchange_seconds, line.mix_seconds
    if not line.active or train is None or exchange is None or mix is None:
        return None
    return train, exchange, mix
