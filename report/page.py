"""The page of a report: its panels in order, the tables among them, and the HTML file, which needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from markupsafe import Markup

from dpeer.federation.settings import aside
from dpeer.report import by_peer, by_round, graphs
from dpeer.report.pages import render, write
from dpeer.report.style import COLORS, Panel, Report, looks, saved
from dpeer.results import units
from dpeer.results.figures import all_metrics, called, in_order, largest_cost
from dpeer.results.groups import Group, Grouped, as_text, choose, distances, group_runs, mean_of, settled
from dpeer.results.run_folders import RunFolder

NONE = "-"

PICTURES: Mapping[str, Callable[[Report], Panel | None]] = {
    "accuracy-by-round": by_round.accuracy_by_round,
    "accuracy-by-peer": by_peer.results_of_peers,
    "time-and-bytes": by_round.time_and_bytes,
    "disagreement-by-round": by_round.disagreement_by_round,
    "graph": graphs.tiles,
}
"""The panels with pictures by the names of their files, in the page's order; None where nothing can be shown."""


def write_report(runs: Sequence[RunFolder], out: Path, labels: Sequence[str], title: str | None) -> list[Path]:
    """Write the page and its pictures; those of an earlier report are replaced.

    Returns:
        The page's path, then the pictures'.

    Raises:
        OutputError: It cannot be written.
    """
    grouped = group_runs(runs, labels, aside())
    report = Report(grouped, choose(grouped.groups))
    panels = make_panels(report)
    with looks():
        pictures = {name: saved(panel.figure) for name, panel in panels.items() if panel.figure is not None}
    page = render(
        "report.html",
        title=title or _title(grouped),
        summary=_in_words(grouped),
        incomplete=_incomplete(grouped),
        headlines=by_peer.headlines(report.groups),
        panels=panels,
        pictures={name: base64.b64encode(png).decode("ascii") for name, png in pictures.items()},
    )
    return write(out, page, {name: pictures.get(name) for name in PICTURES})


def make_panels(report: Report) -> dict[str, Panel]:
    """The panels by name, in the page's order."""
    panels: dict[str, Panel | None] = {
        "results": _results(report), "metrics": _metrics(report.groups), "settings": _settings(report.grouped),
    }  # fmt: skip
    with looks():
        panels |= {name: make(report) for name, make in PICTURES.items()}
    panels["runs"] = _runs(report.groups)
    return {name: panel for name, panel in panels.items() if panel is not None}


def _title(grouped: Grouped) -> str:
    """The page's title: the settings that all groups have in common."""
    common = {key: grouped.common.get(key) for key in ("algorithm", "task", "partition", "topology", "size")}
    words = [value for key, value in common.items() if value and key not in ("size", "partition")]
    peers = [f"{common['size']} peers"] if common["size"] else []
    return "dpeer: " + (", ".join([*words, *peers]) or f"{len(grouped.groups)} groups of runs")


def _in_words(grouped: Grouped) -> str:
    runs = [run for group in grouped.groups for run in group.runs]
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    groups = len(grouped.groups)
    if groups < len(runs):
        count += f" in {groups} {'group' if groups == 1 else 'groups'} that differ in more than their seed"
    ended = sum(run.status == "done" for run in runs)
    return count + ("" if ended == len(runs) else f"; {len(runs) - ended} did not end, see the notes below")


def _incomplete(grouped: Grouped) -> list[str]:
    """Cautions where the files of some peers are missing: a mean over others is not to be compared with these."""
    partial = [group for group in grouped.groups if group.partial]
    lines = [
        (f"No. {group.number}, {group.label}: only " if len(grouped.groups) > 1 else "Only ")
        + (
            f"rank {group.ranks[0]}, one of {group.size} peers, left files here: all figures are its own"
            if len(group.ranks) == 1
            else f"{len(group.ranks)} of {group.size} peers left files here: means are over these"
        )
        + ", not the whole federation's."
        for group in partial
    ]
    if partial and len({tuple(group.ranks) for group in grouped.groups}) > 1:
        lines.append("A mean over some peers cannot be compared with one over others: compare these runs rank by rank.")
    return lines


def _results(report: Report) -> Panel:
    """The table of each group's results."""
    groups, measure = report.groups, report.measure
    columns: dict[str, Callable[[Group], str]] = {
        "seeds": lambda group: str(len(group.runs)),
        "peers": lambda group: f"{len(group.ranks)} of {group.size}" if group.partial else str(group.size),
        f"{measure.name}: kept (mean)": lambda group: _over(mean_of(group, measure.key)),
        "after mixing (mean)": lambda group: _over(mean_of(group, measure.key, mixed=True)),
    }
    if (trained := measure.trained) is not None:
        columns["before mixing (mean)"] = lambda group: _over(mean_of(group, trained))
    if any(map(_gaps, groups)):
        columns["training accuracy after mixing"] = lambda group: _over(mean_of(group, "training_accuracy", mixed=True))
        columns["generalization gap"] = lambda group: _over(_gaps(group), "+")
    columns |= {
        f"worst peer's {measure.name}": lambda group: _worst(group, report),
        "sent in all": lambda group: units.size(round(fmean(run.bytes_sent for run in group.runs))),
        "wall time": _wall_time,
        "consensus distance": _distance,
    }
    if any(map(_spent, groups)):
        columns["epsilon"] = lambda group: largest_cost(spent) if (spent := _spent(group)) else NONE
    runs = [run for group in groups for run in group.runs]
    kept_best = any(run.settings.get("keep") in ("best", "blend") for run in runs)
    data = "validation" if any(run.settings.get("evaluate_on") == "validation" for run in runs) else "test"
    caption = (
        f"Means are over peers, each on its own {data} data, none counting more than another. Kept: the model that a "
        "peer has in the end, finished at home"
        + (" or, as validation data choose, the best federated one, the local only one or a blend" if kept_best else "")
        + ". After mixing: with its body mixed with its neighbors' in the last round"
        + (" (or the best one)." if kept_best else ".")
        + (" Before mixing: the same peer as it had just trained itself." if trained else "")
    )
    if any(len(group.runs) > 1 for group in groups):
        caption += (
            " Of several seeds: the mean over seeds, ± their standard deviation (that of a sample); the worst peer is "
            "that of all seeds."
        )
    return Panel(
        "Results at the end",
        caption,
        columns=[("no.", ""), ("run", "name"), *((name, "") for name in columns)],
        rows=[
            [group.number, _swatch(group, report) + group.label, *(text(group) for text in columns.values())]
            for group in groups
        ],
    )


def _swatch(group: Group, report: Report) -> Markup:
    """A dot of the group's color, if its pictures have one."""
    if (style := report.styles.get(group.number)) is None:
        return Markup("")
    return Markup('<span class="swatch" style="background:{}"></span>').format(COLORS[style])


def _gaps(group: Group) -> list[float]:
    """Every seed's mean generalization gap after the last mixing, of the runs that have it."""
    both = [[run.finals(key, mixed=True) for key in ("training_accuracy", "accuracy")] for run in group.runs]
    return [fmean(training.values()) - fmean(test.values()) for training, test in both if training and test]


def _wall_time(group: Group) -> str:
    seconds = [run.wall_seconds for run in group.runs if run.wall_seconds is not None]
    return units.duration(fmean(seconds)) if seconds else NONE


def _distance(group: Group) -> str:
    found = distances(group)
    return f"{settled(fmean(found)):.4g}" if found else NONE


def _spent(group: Group) -> list[Mapping[str, object]]:
    """The privacy costs in the files of a group's runs and peers."""
    summaries = [run.summary.privacy for run in group.runs if run.summary]
    peers = [peer.spent() for run in group.runs for peer in run.peers.values()]
    return [spent for spent in (*summaries, *peers) if spent is not None and "epsilon" in spent]


def _over(values: Sequence[float], sign: Literal["", "+"] = "") -> str:
    """The mean over seeds and, of several, their standard deviation."""
    if not values:
        return NONE
    return units.decimals(fmean(values), sign) + (
        f" ± {units.decimals(stdev(values), sign)}" if len(values) > 1 else ""
    )


def _worst(group: Group, report: Report) -> str:
    """The worst peer of all seeds: its value and its rank."""
    measure = report.measure
    found = [(value, rank, run) for run in group.runs for rank, value in run.finals(measure.key).items()]
    if not found:
        return NONE
    value, rank, run = (min if measure.most_is_best else max)(found, key=lambda one: one[0])
    seed = f", seed {run.settings.get('seed')}" if len(group.runs) > 1 else ""
    return f"{units.decimals(value)} (rank {rank}{seed})"


def _metrics(groups: Sequence[Group]) -> Panel | None:
    """The table of every metric's mean over the peers; None without further metrics."""
    means = [[_means(run) for run in group.runs] for group in groups]
    known = in_order(dict.fromkeys(name for group in means for run in group for name in run))
    names = [name for name in known if name != "accuracy"]  # the table of results has it
    if not names:
        return None
    return Panel(
        "More metrics at the end",
        Markup(
            "Means over the peers, each on its own data; a peer whose data leave a metric undefined does not count. "
            "Each peer's intervals are in its <code>model.json</code>."
        ),
        columns=[("no.", ""), *((called(name), "") for name in names)],
        rows=[
            [number, *(_over([run[name] for run in group if name in run]) for name in names)]
            for number, group in enumerate(means, 1)
        ],
    )


def _means(run: RunFolder) -> dict[str, float]:
    """By name, the mean over the peers that have such a metric."""
    found: dict[str, list[float]] = {}
    for peer in run.peers.values():
        lines = (line.metrics for line in reversed([*peer.entries.values()]) if line.metrics is not None)
        # Where it has not ended, those of its last evaluated round.
        last = next(lines, {}) if peer.summary is None else all_metrics(peer.summary)
        for name, value in last.items():
            if value is not None:
                found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()}


def _settings(grouped: Grouped) -> Panel:
    """The settings in which groups differ as a table, and those that they have in common."""
    in_common = "These they have in common:" if len(grouped.groups) > 1 else "The run's:"
    return Panel(
        "Settings",
        in_common if grouped.common else "The runs did not leave their settings.",
        lead="In these the runs differ:" if grouped.differing else "",
        columns=[("no.", ""), *((key, "text") for key in grouped.differing)] if grouped.differing else [],
        rows=[[group.number, *(group.values[key] for key in grouped.differing)] for group in grouped.groups],
        terms=grouped.common,
    )


def _runs(groups: Sequence[Group]) -> Panel:
    """The table of the runs' folders, states and notes."""
    return Panel(
        "Runs and files",
        "",
        columns=[("no.", ""), ("folder", "name"), ("seed", ""), ("state", "text"), ("notes", "text")],
        rows=[
            [
                group.number, Markup("<code>{}</code>").format(run.folder), as_text(run.settings.get("seed")),
                run.status, "; ".join(run.notes()),
            ]
            for group in groups for run in group.runs
        ],
    )  # fmt: skip
