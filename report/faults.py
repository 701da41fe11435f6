"""Panel of the faults of a simulation: a strip over time for each rank."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from dpeer.report.facets import Report
from dpeer.report.style import Panel, legend, new_figure, tidy, wrap
from dpeer.results.faults import FaultCosts, Faults, Incident, sentences
from dpeer.results.groups import Group

_SHOWN = 4
"""The most groups with strips of their own."""

_RANKS = 64

_TRAINED, SAT_OUT, _LOST = "#a5cbe4", "#E69F00", "#e4e9ec"
_NOT_THERE = "not there"
_DURING = {
    "crash": ("#333333", _NOT_THERE), "restart": ("#333333", _NOT_THERE), "leave": ("#333333", _NOT_THERE),
    "freeze": ("#0072B2", "frozen"), "partition": ("#CC79A7", "cut off"), "slow": ("#009E73", "slow"),
}  # fmt: skip
"""By kind of fault: its color, and the peer's state meanwhile."""


def strips(report: Report) -> Panel | None:
    """Draw a strip over time for each rank of the first run of each group that had faults; None where none had."""
    found = [(group, faults) for group in report.groups if (faults := _faults(group)) is not None and faults.ranks]
    if not found:
        return None
    shown = found[:_SHOWN]
    heights = [0.9 + 0.26 * min(len(faults.ranks), _RANKS) for _, faults in shown]
    figure = new_figure(sum(heights) + 1.1)
    grid = figure.subplots(len(shown), squeeze=False, gridspec_kw={"height_ratios": heights}).ravel()
    seen: dict[str, str] = {}
    for axes, (group, faults) in zip(grid, shown, strict=True):
        seen |= _draw(axes, faults)
        if len(found) > 1:
            axes.set_title(wrap(group.name, 70), fontsize=11)
    grid[-1].set_xlabel("time since the start, in rounds")
    kinds = [
        Patch(color=_TRAINED, label="a round, trained"), Patch(color=SAT_OUT, label="a round, sat out"),
        Patch(color=_LOST, label="begun and lost"),
        *(Patch(color=color, label=words) for words, color in seen.items()),
        Line2D([], [], ls="", marker="o", ms=5, color="#D55E00", label="a body was missing in the mix"),
    ]  # fmt: skip
    legend(figure, {}, kinds)
    prefix = {id(faults): f"{group.label}: " if len(found) > 1 else "" for group, faults in shown}
    words = [f"{prefix[id(faults)]}{line}" for group, faults in shown for line in _sentences(group, faults)]
    caption = "Each strip is a peer, each cell one of its rounds, as long as that took. " + " ".join(
        f"{line[:1].upper()}{line[1:]}." for line in words
    )
    more = max(len(faults.ranks) for _, faults in shown) > _RANKS
    caption += f" Only the first {_RANKS} ranks are drawn." if more else ""
    caption += f" Only {_SHOWN} of {len(found)} runs with faults are drawn." if len(found) > _SHOWN else ""
    return Panel("Faults", caption, f"Strips over time, one for each rank. {' '.join(words)}", figure)


def _faults(group: Group) -> Faults | None:
    summary = group.runs[0].summary
    return None if summary is None else summary.faults


def _sentences(group: Group, faults: Faults) -> list[str]:
    return sentences(faults, group.runs[0].summary.rounds if group.runs[0].summary else None)


def _draw(axes: Axes, faults: Faults) -> dict[str, str]:
    """Draw the strips of a run; returns the states that occur, with their colors."""
    seen = {}
    drawn = faults.ranks[:_RANKS]
    end = max([faults.time or 0.0, *(time for one in drawn for time in one.completed_at)])
    place = {one.rank: row for row, one in enumerate(drawn)}
    for row, one in enumerate(drawn):
        _draw_rounds(axes, row, one, [each for each in faults.happened if each.rank == one.rank and _away(each)])
    for incident in faults.happened:
        if incident.rank not in place or incident.time is None or incident.what not in _DURING:
            continue
        color, words = _DURING[incident.what]
        seen[words] = color
        until = end if incident.until_time is None else min(incident.until_time, end)
        height, low = (0.76 if _away(incident) else 0.22), -0.38
        # An instant fault would not be seen.
        wide = max(until - incident.time, end / 300)
        axes.broken_barh([(incident.time, wide)], (place[incident.rank] + low, height), color=color, lw=0, zorder=3)
    axes.set_yticks(range(len(drawn)), [str(one.rank) for one in drawn], fontsize=9)
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    axes.set_xlim(0, end or 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("rank")
    tidy(axes)
    axes.grid(visible=False)
    return seen


def _away(incident: Incident) -> bool:
    return _DURING.get(incident.what or "", ("", ""))[1] == _NOT_THERE


def _draw_rounds(axes: Axes, row: int, one: FaultCosts, away: Sequence[Incident]) -> None:
    # A joiner is let in rounds before it enters.
    before = max(one.joined_at, one.completed_at[0] - 1) if one.joined_at and one.completed_at else 0.0
    for number, time in enumerate(one.completed_at, one.first_round or 0):
        # A round that a crash has cut short begins after it.
        began = max([before, *(each.until_time for each in away if each.until_time and each.until_time <= time)])
        sat_out = number in one.sat_out
        color = SAT_OUT if sat_out else _TRAINED
        edge = color if sat_out else "white"  # it is over at once, and a white edge would hide it
        place = (row - 0.38, 0.76)
        axes.broken_barh([(before, time - before)], place, facecolor=_LOST, edgecolor="white", lw=0.7, zorder=2)
        axes.broken_barh([(began, time - began)], place, facecolor=color, edgecolor=edge, lw=0.7, zorder=2)
        if str(number) in one.missed_by_round:
            axes.plot(time, row + 0.1, marker="o", ms=4, color="#D55E00", zorder=4, clip_on=False)
        before = time
    for each in away:
        if each.until_time is None and each.time is not None and each.time > before:
            place = (row - 0.38, 0.76)
            axes.broken_barh([(before, each.time - before)], place, facecolor=_LOST, lw=0, zorder=2)
