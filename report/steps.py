"""Panel of shortened rounds: the share of the asked steps that each peer has trained under a round budget."""

from __future__ import annotations

from dpeer.report.facets import Report, peer_name
from dpeer.report.style import COLORS, Panel, name_rows, new_figure
from dpeer.results.reading import Run

_ROWS = 40
"""The most rows of a picture."""

Steps = list[tuple[int, int]]
"""Of one peer, by trained round: the steps that were done, and those that were asked."""


def steps_of(run: Run) -> dict[int, Steps]:
    """The steps of each peer in the rounds that it trained; empty where no round was shortened."""
    found = {
        rank: [
            (sum(entry.steps), sum(entry.steps_asked))
            for entry in peer.entries.values()
            if entry.steps and entry.steps_asked and sum(entry.steps_asked)
        ]
        for rank, peer in run.peers.items()
    }
    found = {rank: steps for rank, steps in sorted(found.items()) if steps}
    return found if any(done < asked for steps in found.values() for done, asked in steps) else {}


def shortened(report: Report) -> Panel | None:
    """A row for each peer with the share of its steps, the least at the top; None where no round was shortened."""
    several = sum(any(steps_of(run) for run in group.runs) for group in report.groups) > 1
    rows = [
        (_share(steps), peer_name(group, run, rank, several=several), steps)
        for group in report.groups
        for run in group.runs
        for rank, steps in steps_of(run).items()
    ]
    if not rows:
        return None
    shown = sorted(rows, key=lambda row: row[0])[:_ROWS]
    figure = new_figure(1.3 + max(0.34 * len(shown), 0.9))
    axes = figure.subplots()
    for row, (share, _, steps) in enumerate(shown):
        axes.barh(row, 100 * share, height=0.62, color=COLORS[0], alpha=0.35)
        shares = [100 * done / asked for done, asked in steps]
        pale = max(0.2, min(0.8, 10 / len(shares)))
        axes.plot(shares, [row] * len(shares), ls="", marker="|", ms=9, mew=1.6, color=COLORS[0], alpha=pale)
    name_rows(axes, [name for _, name, _ in shown])
    axes.set_xlim(0, 103)
    axes.set_xlabel("steps done, % of those that the epochs ask")
    caption = (
        "Under a round budget (--round-seconds) a slow peer trains fewer minibatches a round than its epochs ask, and "
        "takes part all the same. The bar is of all rounds together, a mark is a round. "
    )
    if len(rows) > _ROWS:
        caption += f"The {_ROWS} lowest of {len(rows)}."
    words = [
        f"{name}: {sum(done for done, _ in steps):,} of {sum(asked for _, asked in steps):,} steps"
        f" in {len(steps)} {'round' if len(steps) == 1 else 'rounds'}."
        for _, name, steps in shown
    ]
    return Panel("Steps under a round budget", caption, f"Bars of the share of steps. {' '.join(words)}", figure)


def _share(steps: Steps) -> float:
    return sum(done for done, _ in steps) / sum(asked for _, asked in steps)
