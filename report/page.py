"""The page of a report: its tables, its panels in order, and the HTML file, which needs no other file."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from jinja2 import Environment, StrictUndefined

import dpeer
from dpeer.exceptions import OutputError
from dpeer.federation.settings import aside
from dpeer.report import by_peer, by_round, classes, faults, graphs, tables
from dpeer.report.facets import LINES, Report
from dpeer.report.style import COLORS, DPI, Panel, looks
from dpeer.report.templates import REPORT
from dpeer.results import units
from dpeer.results.costs import largest_cost
from dpeer.results.figures import all_metrics, called, in_order
from dpeer.results.groups import (
    Group,
    Grouped,
    Measure,
    as_text,
    choose,
    distances,
    group_runs,
    mean_of,
    mean_of_run,
    settled,
)
from dpeer.results.reading import Peer, Run

PAGE = "index.html"
MARK = '<meta name="generator" content="dpeer report'
"""What the head of every page begins with, and of no other."""

PANELS: Mapping[str, Callable[[Report], Panel | None]] = {
    "gain": by_peer.gains,
    "accuracy-by-round": by_round.accuracy_by_round,
    "generalization-gap-by-round": by_round.generalization_gap,
    "faults": faults.strips,
    "accuracy-per-peer": by_peer.results_of_peers,
    "accuracy-by-rank": by_peer.results_by_rank,
    "disagreement": by_peer.final_disagreement,
    "disagreement-by-round": by_round.disagreement_by_round,
    "bytes-by-round": by_round.bytes_by_round,
    "accuracy-by-bytes": by_round.accuracy_by_bytes,
    "graph": graphs.tiles,
    "class-mix": classes.class_mix,
}
"""The panels by the names of their pictures' files, in the page's order; None where there is nothing to show."""


def check_out(out: Path) -> None:
    """Check that a report may be written there.

    Raises:
        OutputError: there is something else.
    """
    if out.exists() and not out.is_dir():
        raise OutputError(f"--out {str(out)!r} is a file: name a folder")
    if not out.exists() or not any(out.iterdir()):
        return
    page = out / PAGE
    if not page.is_file() or MARK not in page.read_text(errors="replace")[:1000]:
        raise OutputError(f"--out {str(out)!r} holds something that is no report: name another folder")


def write_report(runs: Sequence[Run], out: Path, labels: Sequence[str], title: str | None) -> list[Path]:
    """Write the page and its pictures; one that an earlier report left there is replaced.

    Returns:
        The page's path, then the pictures'.

    Raises:
        OutputError: it cannot be written.
    """
    grouped = group_runs(runs, labels, aside())
    report = Report.of(grouped, choose(grouped.groups))
    with looks():
        panels = {name: panel for name, make in PANELS.items() if (panel := make(report)) is not None}
        pictures = {name: png for name, panel in panels.items() if (png := _png(panel)) is not None}
    page = _render(title or _title(grouped), report, panels, pictures)
    paths = {out / f"{name}.png": png for name, png in pictures.items()}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in PANELS:
            (out / f"{name}.png").unlink(missing_ok=True)
        for path, png in paths.items():
            path.write_bytes(png)
        (out / PAGE).write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise OutputError(f"--out {str(out)!r} cannot be written: {error.strerror}") from error
    return [out / PAGE, *paths]


def _png(panel: Panel) -> bytes | None:
    if panel.figure is None:
        return None
    file = io.BytesIO()
    panel.figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()


def _render(title: str, report: Report, panels: Mapping[str, Panel], pictures: Mapping[str, bytes]) -> str:
    """The whole page as HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    runs = [run for group in report.groups for run in group.runs]
    embedded = {
        name: f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}" for name, png in pictures.items()
    }
    return environment.from_string(REPORT).render(
        version=dpeer.__version__,
        title=title,
        summary=_in_words(report.grouped),
        incomplete=_incomplete(report.grouped),
        headlines=by_peer.headlines(report.groups),
        measure=report.measure,
        columns=tables.columns(report.groups, report.measure),
        rows=tables.rows(report.groups, report.measure),
        metrics=tables.metrics_table(report.groups),
        seeds=any(len(group.runs) > 1 for group in report.groups),
        grouped=report.grouped,
        on_validation=any(run.settings.get("evaluate_on") == "validation" for run in runs),
        kept_best=any(run.settings.get("keep") == "best" for run in runs),
        panels=[(name, panel, embedded.get(name)) for name, panel in panels.items()],
        as_text=as_text,
    )


def _title(grouped: Grouped) -> str:
    """The page's title: what all groups have in common."""
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


NONE = "-"

Table = tuple[list[str], list[list[str]]]
"""The headings, and a row of texts for each group."""


@dataclass(frozen=True)
class Row:
    """One group's line: a color if its pictures have one, and a text for each column."""

    number: int
    color: str | None
    label: str
    cells: tuple[str, ...]


def columns(groups: Sequence[Group], measure: Measure) -> list[str]:
    """The headings of the columns of `rows`, without the label."""
    trained = ["before mixing (mean)"] if measure.trained else []
    return [
        "seeds",
        "peers",
        f"{measure.name}: kept (mean)",
        "after mixing (mean)",
        *trained,
        *(["training accuracy after mixing", "generalization gap"] if _fitted(groups) else []),
        f"worst peer's {measure.name}",
        "sent in all",
        "wall time",
        "consensus distance",
        *(["epsilon"] if _private(groups) else []),
    ]


def rows(groups: Sequence[Group], measure: Measure) -> list[Row]:
    """A line for each group."""
    return [
        Row(
            group.number,
            COLORS[group.number - 1] if len(groups) <= LINES else None,
            group.label,
            tuple(_cells(group, measure, private=_private(groups), fitted=_fitted(groups))),
        )
        for group in groups
    ]


def _cells(group: Group, measure: Measure, *, private: bool, fitted: bool) -> list[str]:
    runs = group.runs
    trained = [_over(mean_of(group, measure.trained), _four)] if measure.trained else []
    fit = (
        [_over(mean_of(group, "training_accuracy", mixed=True), _four), _over(_gaps(group), _signed)] if fitted else []
    )
    return [
        str(len(runs)),
        f"{len(group.ranks)} of {group.size}" if group.partial else str(group.size),
        _over(mean_of(group, measure.key), _four),
        _over(mean_of(group, measure.key, mixed=True), _four),
        *trained,
        *fit,
        _worst(group, measure),
        units.size(round(fmean(run.bytes_sent for run in runs))),
        _over([run.wall_seconds for run in runs if run.wall_seconds is not None], units.duration, spread=False),
        _over(distances(group), lambda value: f"{settled(value):.4g}", spread=False),
        *([_epsilon(group)] if private else []),
    ]


def _fitted(groups: Sequence[Group]) -> bool:
    """Whether any run has measured accuracy on training data."""
    return any(_gaps(group) for group in groups)


def _gaps(group: Group) -> list[float]:
    """Every seed's mean generalization gap after the last mixing, of the runs that have it."""
    both = [(mean_of_run(run, "training_accuracy"), mean_of_run(run, "accuracy")) for run in group.runs]
    return [training - test for training, test in both if training is not None and test is not None]


def _private(groups: Sequence[Group]) -> bool:
    return any(_epsilon(group) != NONE for group in groups)


def _epsilon(group: Group) -> str:
    """The largest epsilon of all peers and seeds; against both adversaries where there are two."""
    summaries = [run.summary.privacy for run in group.runs if run.summary]
    peers = [peer.spent() for run in group.runs for peer in run.peers.values()]
    found = [spent for spent in (*summaries, *peers) if spent is not None and "epsilon" in spent]
    return largest_cost(found) if found else NONE


def _over(values: Sequence[float], text: Callable[[float], str], *, spread: bool = True) -> str:
    """The mean over seeds and, of several, their standard deviation."""
    if not values:
        return NONE
    many = spread and len(values) > 1
    return text(fmean(values)) + (f" ± {text(stdev(values))}" if many else "")


def _worst(group: Group, measure: Measure) -> str:
    """The worst peer of all seeds: its value and its rank."""
    found = [(run, *measure.worst(values)) for run in group.runs if (values := run.finals(measure.key))]
    if not found:
        return NONE
    run, rank, value = (min if measure.most_is_best else max)(found, key=lambda one: one[2])
    seed = f", seed {run.settings.get('seed')}" if len(group.runs) > 1 else ""
    return f"{_four(value)} (rank {rank}{seed})"


def _signed(value: float) -> str:
    return f"{value:+.4f}"


def _four(value: float) -> str:
    return f"{value:.4f}"


def metrics_table(groups: Sequence[Group]) -> Table | None:
    """Every metric's mean over the peers, a row for each group in their order; None where there is none."""
    means = [[_means(run) for run in group.runs] for group in groups]
    names = [*in_order(dict.fromkeys(name for group in means for run in group for name in run))]
    names = [name for name in names if name != "accuracy"]  # the table of results has it
    if not names:
        return None
    return [called(name) for name in names], [
        [_over([run[name] for run in group if name in run], _four) for name in names] for group in means
    ]


def _means(run: Run) -> dict[str, float]:
    """By name, the mean over the peers that have such a metric."""
    found: dict[str, list[float]] = {}
    for peer in run.peers.values():
        for name, value in _last(peer).items():
            if value is not None:
                found.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in found.items()}


def _last(peer: Peer) -> dict[str, float | None]:
    """A peer's metrics at the end; those of its last evaluated round where it has not ended."""
    if peer.summary is not None:
        return all_metrics(peer.summary)
    lines = (line.metrics for line in reversed(list(peer.entries.values())))
    return dict(next((metrics for metrics in lines if metrics is not None), {}))
