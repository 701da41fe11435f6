"""The page of a report: HTML that needs no other file."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from jinja2 import Environment, StrictUndefined

import dpeer
from dpeer.report import table
from dpeer.report.curves import Measure
from dpeer.report.groups import Grouped, as_text
from dpeer.report.metrics import metrics_table
from dpeer.report.style import Section
from dpeer.report.template import PAGE
from dpeer.report.worth import headlines

MARK = '<meta name="generator" content="dpeer report'
"""What the head of every page begins with, and of no other."""


def render_page(title: str, grouped: Grouped, measure: Measure, sections: Sequence[Section]) -> str:
    """The whole page as HTML."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    runs = [run for group in grouped.groups for run in group.runs]
    return environment.from_string(PAGE).render(
        version=dpeer.__version__,
        title=title,
        summary=_in_words(grouped),
        incomplete=_incomplete(grouped),
        headlines=headlines(grouped.groups),
        measure=measure,
        columns=table.columns(grouped.groups, measure),
        rows=table.rows(grouped.groups, measure),
        metrics=metrics_table(grouped.groups),
        seeds=any(len(group.runs) > 1 for group in grouped.groups),
        grouped=grouped,
        on_validation=any(run.settings.get("evaluate_on") == "validation" for run in runs),
        kept_best=any(run.settings.get("keep") == "best" for run in runs),
        sections=[(section, _embedded(section.png)) for section in sections],
        as_text=as_text,
    )


def _in_words(grouped: Grouped) -> str:
    runs = [run for group in grouped.groups for run in group.runs]
    count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
    groups = len(grouped.groups)
    count += (
        f" in {groups} {'group' if groups == 1 else 'groups'} that differ in more than their seed"
        if groups < len(runs)
        else ""
    )
    ended = sum(run.status == "done" for run in runs)
    return count + ("" if ended == len(runs) else f"; {len(runs) - ended} did not end, see the notes below")


def _incomplete(grouped: Grouped) -> list[str]:
    """What stands at the top where some peers' files are not here: a mean over others is not to be compared with it."""
    partial = [group for group in grouped.groups if group.partial]
    said = [
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
        said.append("A mean over some peers cannot be compared with one over others: compare these runs rank by rank.")
    return said


def _embedded(png: bytes | None) -> str | None:
    return None if png is None else "data:image/png;base64," + base64.b64encode(png).decode("ascii")
