"""The page of a report: its panels in order, its tables, and the HTML file, which needs no other file."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined

import dpeer
from dpeer.exceptions import OutputError
from dpeer.federation.settings import aside
from dpeer.report import by_peer, by_round, classes, faults, graphs, tables
from dpeer.report.facets import Report
from dpeer.report.style import DPI, Panel, looks
from dpeer.report.templates import REPORT
from dpeer.results.curves import choose
from dpeer.results.groups import Grouped, as_text, group_runs
from dpeer.results.runs import Run

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
