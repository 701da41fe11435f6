"""The effect of federating: a headline for each run, and a picture of every peer's gain."""

from __future__ import annotations

from collections import Counter

from dpeer.report.groups import Group
from dpeer.report.style import COLORS, Section, clip, name_rows, new_figure, render
from dpeer.results.effect import Effect, Verdict, headline, verdict_word
from dpeer.results.effect_statistics import pooled_text
from dpeer.results.runs import Run

NAME = "gain"

_ROWS = 40
"""The most peers with a line of their own."""

_COLORS: dict[Verdict | None, str] = {"improved": COLORS[2], "worse": COLORS[1], "inconclusive": "#777777"}


def worth_of_run(run: Run) -> dict[int, Effect]:
    """The effect of federating on each peer, where it was measured."""
    said = dict(enumerate(run.summary.worth)) if run.summary is not None else {}
    own = {rank: peer.summary.worth for rank, peer in run.peers.items() if peer.summary is not None}
    found = own | {rank: worth for rank, worth in said.items() if worth is not None}
    return {rank: worth for rank, worth in sorted(found.items()) if worth is not None and worth.verdict is not None}


def headlines(groups: tuple[Group, ...]) -> list[str]:
    """A sentence for each group in which peers were compared with their baselines."""
    found = []
    for group in groups:
        told = [worth for run in group.runs for worth in worth_of_run(run).values()]
        if line := headline(told):
            if (
                len(group.runs) == 1
                and group.runs[0].settings.get("test_split") != "shared"
                and (all_ := pooled_text(told))
            ):
                line = f"{line}; {all_}"
            found.append(f"{group.name}: {line}" if len(groups) > 1 else f"{line[0].upper()}{line[1:]}")
    return found


def draw_gains(groups: tuple[Group, ...]) -> Section | None:
    """Draw every peer's gain with its interval, the highest at the top; None where no peer was compared."""
    several = sum(any(worth_of_run(run) for run in group.runs) for group in groups) > 1
    rows = [
        (worth, _name(group, run, rank, several=several))
        for group in groups for run in group.runs for rank, worth in worth_of_run(run).items()
        if worth.gain is not None and worth.low is not None and worth.high is not None
    ]  # fmt: skip
    if not rows:
        return None
    of_accuracy = Counter(worth.of_accuracy for worth, _ in rows).most_common(1)[0][0]
    rows = [row for row in rows if row[0].of_accuracy == of_accuracy]
    ranked = sorted(rows, key=lambda row: row[0].gain or 0.0, reverse=True)
    shown = ranked[-_ROWS:]
    figure = new_figure(1.5 + max(0.3 * len(shown), 0.9))
    axes = figure.subplots()
    axes.axvline(0.0, color="black", lw=1.0)
    labelled: set[str] = set()
    for row, (worth, _) in enumerate(shown):
        color, word = _COLORS[worth.verdict], verdict_word(worth)
        ends = [value for value in (worth.low, worth.high, worth.gain) if value is not None]
        axes.plot(ends[:2], [row, row], color=color, lw=2.4, alpha=0.6, solid_capstyle="butt")
        label = None if word in labelled else word
        axes.plot(ends[2:], [row], ls="", marker="o", ms=6.5, color=color, label=label)
        labelled.add(word)
    name_rows(axes, [name for _, name in shown])
    axes.set_xlabel("gain in accuracy (share correct)" if of_accuracy else "gain: how much lower the loss is")
    figure.legend(loc="outside lower center", ncols=len(labelled), frameon=False)
    caption = (
        "How much better a peer's federated model does on its own rows than its local-only baseline: right of the line "
        "federating is better. Bars are 95 % intervals over the peer's rows. "
        + (f"The {_ROWS} lowest of {len(rows)}. " if len(rows) > _ROWS else "")
        + "It is inconclusive where the interval holds zero, where the peer has fewer than ten rows, or where too few "
        "of them differ."
    )
    alt = "Dots of every peer's gain with intervals. " + " ".join(
        f"{name}: {worth.gain:+.4f}, {verdict_word(worth)}." for worth, name in shown
    )
    return Section(NAME, "Effect of federating", caption, alt, render(figure))


def _name(group: Group, run: Run, rank: int, *, several: bool) -> str:
    parts = [clip(group.label, 50)] if several else []
    seed = f", seed {run.settings.get('seed')}" if len(group.runs) > 1 else ""
    return ", ".join([*parts, f"rank {rank}{seed}"])
