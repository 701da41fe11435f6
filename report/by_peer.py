"""Panel of every peer's result, federated beside local only; and the headline of who improved."""

from __future__ import annotations

from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dpeer.report.style import COLORS, GREY, Panel, Report, legend, name_rows, new_figure
from dpeer.results.effect import LOCAL_ONLY, Effect, Verdict, headline, members_text, verdict_word
from dpeer.results.groups import Group
from dpeer.results.run_folders import RunFolder
from dpeer.results.units import decimals

_ROWS = 40
"""The most rows of a picture."""

_COLORS: dict[Verdict | None, str] = {
    "improved": COLORS[2], "worse": COLORS[1], "inconclusive": "#777777", None: COLORS[0],
}  # fmt: skip

_ALONE: dict[str, Any] = {"ls": "", "marker": "D", "ms": 6, "mfc": "white", "mec": "black", "mew": 1.2}


class _Peer(NamedTuple):
    """A peer's kept and federated models at the end, and the comparison with its baseline where it has one."""

    name: str
    kept: float
    joined: float
    effect: Effect | None


def effects_of(run: RunFolder) -> dict[int, Effect]:
    """The effect of federating on each peer, where it was measured."""
    of_run = dict(enumerate(run.summary.worth)) if run.summary is not None else {}
    own = {rank: peer.summary.worth for rank, peer in run.peers.items() if peer.summary is not None}
    found = own | {rank: effect for rank, effect in of_run.items() if effect is not None}
    return {rank: one for rank, one in sorted(found.items()) if one is not None and one.verdict is not None}


def headlines(groups: tuple[Group, ...]) -> list[str]:
    """A sentence for each group in which peers were compared with their baselines."""
    found = []
    for group in groups:
        effects = [effect for run in group.runs for effect in effects_of(run).values()]
        if line := headline(effects):
            run = group.runs[0]
            if len(group.runs) == 1 and len(run.peers) > 1 and run.settings.get("test_split") != "shared":
                line = "; ".join(filter(None, (line, members_text(effects_of(run), run.members))))
            found.append(f"{group.name}: {line}" if len(groups) > 1 else line)
    return found


def results_of_peers(report: Report) -> Panel | None:
    """Every peer's result: a row for each peer of one group, of more a row for each group; None without results."""
    found = [(group, peers) for group in report.groups if (peers := _peers(group, report))]
    if not found:
        return None
    title = f"{report.measure.name.capitalize()} of every peer at the end"
    if len(found) == 1 and len(found[0][1]) <= _ROWS:
        return _each(report, title, found[0][1])
    return _together(report, title, found)


def _peers(group: Group, report: Report) -> list[_Peer]:
    """All peers of a group, of all seeds."""
    measure, found = report.measure, []
    for run in group.runs:
        effects = effects_of(run)
        seed = f", seed {run.settings.get('seed')}" if len(group.runs) > 1 else ""
        for rank, value in run.finals(measure.key).items():
            joined, effect = value, effects.get(rank)
            if effect is None or effect.measure != measure.key or effect.joined is None or effect.alone is None:
                effect = None
            else:
                joined = effect.joined
            found.append(_Peer(f"rank {rank}{seed}", value, joined, effect))
    return found


def _each(report: Report, title: str, peers: list[_Peer]) -> Panel:
    """A row for each peer, the best at the top."""
    measure = report.measure
    shown = sorted(peers, key=lambda peer: peer.joined, reverse=measure.most_is_best)
    figure = new_figure(1.6 + max(0.3 * len(shown), 0.9))
    axes = figure.subplots()
    kinds: dict[str, Artist] = {}
    for row, peer in enumerate(shown):
        color = _COLORS[None if peer.effect is None else peer.effect.verdict]
        if peer.effect is not None:
            _draw_gain(axes, row, peer.effect, color, most_is_best=measure.most_is_best)
        axes.plot([peer.joined], [row], ls="", marker="o", ms=7, color=color)
        word = "federated" if peer.effect is None else f"federated: {verdict_word(peer.effect)}"
        kinds.setdefault(word, Line2D([], [], ls="", marker="o", ms=7, color=color, label=word))
    name_rows(axes, [peer.name for peer in shown])
    axes.set_xlabel(measure.axis)
    caption = "Each peer on its own data, the best at the top. "
    if any(peer.effect for peer in shown):
        kinds[LOCAL_ONLY] = Line2D([], [], **_ALONE, label=LOCAL_ONLY)
        caption += (
            f"Dot: the federated model; diamond: {LOCAL_ONLY}, trained as long on the peer's data by itself; bar: the "
            "95 % interval of the gain over the peer's rows, drawn from the diamond. It is inconclusive where the "
            "interval holds zero, where the peer has fewer than ten rows, or where too few of them differ."
        )
    else:
        caption += "No peer was compared with its local-only baseline; `dpeer worth` does that after a run."
    legend(figure, {}, [*kinds.values()])
    alt = "Dots of every peer's result. " + " ".join(map(_in_words, shown))
    return Panel(title, caption, alt, figure)


def _draw_gain(axes: Axes, row: int, effect: Effect, color: str, *, most_is_best: bool) -> None:
    """The baseline's value, and the gain's interval from there."""
    assert effect.alone is not None, "looked at by the caller"
    if effect.low is not None and effect.high is not None:
        sign = 1 if most_is_best else -1
        ends = [effect.alone + sign * effect.low, effect.alone + sign * effect.high]
        axes.plot(ends, [row, row], color=color, lw=2.4, alpha=0.5, solid_capstyle="butt", zorder=1)
    axes.plot([effect.alone], [row], **_ALONE)


def _in_words(peer: _Peer) -> str:
    if peer.effect is None:
        return f"{peer.name}: {decimals(peer.joined)}."
    return f"{peer.name}: {decimals(peer.joined)}, alone {decimals(peer.effect.alone)}, {verdict_word(peer.effect)}."


def _together(report: Report, title: str, found: list[tuple[Group, list[_Peer]]]) -> Panel:
    """A row for each group with a dot for each peer, the best mean at the top."""
    measure = report.measure
    shown = sorted(found, key=lambda row: _mean(row[1]), reverse=measure.most_is_best)[:_ROWS]
    figure = new_figure(1.5 + max(0.38 * len(shown), 0.9))
    axes = figure.subplots()
    generator = np.random.default_rng(0)
    for row, (group, peers) in enumerate(shown):
        color = COLORS[report.styles[group.number]] if group.number in report.styles else GREY
        lifted = row + generator.uniform(-0.22, 0.22, len(peers))
        pale = max(0.25, min(0.75, 18 / len(peers)))
        values = [peer.kept for peer in peers]
        axes.plot(values, lifted, ls="", marker="o", ms=5.5, color=color, mec="none", alpha=pale, clip_on=False)
        axes.plot([_mean(peers)] * 2, [row - 0.4, row + 0.4], color="black", lw=2.2)
    name_rows(axes, [group.name for group, _ in shown])
    axes.set_xlabel(measure.axis)
    mean = Line2D([], [], ls="", marker="|", ms=14, mew=2.2, color="black", label="mean over peers")
    legend(figure, {}, [Line2D([], [], ls="", marker="o", ms=5.5, color=GREY, label="a peer"), mean])
    caption = (
        "A dot is a peer on its own data, with the model that was kept. "
        + ("All seeds' peers are shown. " if any(len(group.runs) > 1 for group, _ in shown) else "")
        + ("The best mean is at the top. " if len(found) > 1 else "")
        + (f"The {_ROWS} best of {len(found)}; the table has all. " if len(found) > _ROWS else "")
    )
    means = [f"{group.label}: mean {_mean(peers):.3f}." for group, peers in shown]
    alt = f"Dots of every peer's {measure.name}, a row for each group. {' '.join(means)}"
    return Panel(title, caption, alt, figure)


def _mean(peers: list[_Peer]) -> float:
    return fmean(peer.kept for peer in peers)
