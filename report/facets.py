"""Facets of a report's panels: groups of runs divided into subplots of at most eight lines, and their axes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpeer.report.style import new_figure, tidy
from dpeer.results.groups import Group, Grouped, Measure, short

LINES = 8
"""The most lines in a facet."""

_FACETS = 12


@dataclass(frozen=True)
class GroupLine:
    """One group in a facet: its look and its name there."""

    group: Group
    style: int
    name: str


@dataclass(frozen=True)
class Facet:
    """Lines that are drawn together, and their common title."""

    title: str
    lines: tuple[GroupLine, ...]


@dataclass(frozen=True)
class Facets:
    """All facets of a picture.

    Attributes:
        facets: The facets; a look means the same in all of them.
        remark: The groups that are left out; empty if all are drawn.
    """

    facets: tuple[Facet, ...]
    remark: str = ""

    @property
    def lines(self) -> list[GroupLine]:
        """The lines of all facets."""
        return [line for facet in self.facets for line in facet.lines]

    @property
    def names(self) -> dict[int, str]:
        """The legend's name of each style."""
        return {line.style: line.name for line in self.lines}

    @property
    def crowded(self) -> bool:
        """Whether bands would lie on one another."""
        return max(len(facet.lines) for facet in self.facets) > 3


@dataclass(frozen=True)
class Report:
    """The data that panels draw from.

    Attributes:
        grouped: All runs, in groups that differ in their seed alone.
        measure: The metric that the runs are judged by.
        facets: The groups in facets.
    """

    grouped: Grouped
    measure: Measure
    facets: Facets

    @classmethod
    def of(cls, grouped: Grouped, measure: Measure) -> Report:
        """With the groups arranged in facets."""
        return cls(grouped, measure, arrange(grouped, measure))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, by number."""
        return self.grouped.groups


def arrange(grouped: Grouped, measure: Measure) -> Facets:
    """Few groups in one facet, more in facets by a setting; where that is not enough, only the best."""
    groups = grouped.groups
    if len(groups) <= LINES:
        return Facets((Facet("", tuple(GroupLine(group, group.number - 1, group.name) for group in groups)),))
    if divided := [facets for key in grouped.naming if (facets := _divide(grouped, key))]:
        # Few facets of many lines compare more; algorithms are compared most.
        return Facets(min(divided, key=lambda facets: (_apart(facets), len(facets))))
    ranked = sorted(groups, key=measure.standing, reverse=True)[:LINES]
    lines = tuple(GroupLine(group, style, group.name) for style, group in enumerate(ranked))
    remark = f"The {LINES} of {len(groups)} groups with the best {measure.name}; the table has all."
    return Facets((Facet("", lines),), remark)


def _divide(grouped: Grouped, key: str) -> tuple[Facet, ...] | None:
    """Facets for a setting's values; None if facets, or lines in them, are too many."""
    titles: dict[str, list[Group]] = {}
    others = [other for other in grouped.naming if other != key]
    names = {group.number: _name(group, others) for group in grouped.groups}
    styles = {name: style for style, name in enumerate(dict.fromkeys(names.values()))}
    for group in grouped.groups:
        titles.setdefault(short({key: group.values[key]}), []).append(group)
    # The same look twice in a facet: a label or a folder sets them apart, which no setting does.
    alike = any(len({names[group.number] for group in inside}) < len(inside) for inside in titles.values())
    if alike or not 1 < len(titles) <= _FACETS or not 1 < len(styles) <= LINES:
        return None
    return tuple(
        Facet(title, tuple(GroupLine(group, styles[names[group.number]], names[group.number]) for group in inside))
        for title, inside in titles.items()
    )


def _name(group: Group, keys: Sequence[str]) -> str:
    seeds = f" ({len(group.runs)} seeds)" if len(group.runs) > 1 else ""
    return (short({key: group.values[key] for key in keys}) or "all") + seeds


def _apart(facets: tuple[Facet, ...]) -> bool:
    """Whether an algorithm's runs are in one facet each, where they cannot be compared with another's."""
    algorithms = [{str(line.group.runs[0].settings.get("algorithm")) for line in facet.lines} for facet in facets]
    return len(set.union(*algorithms)) > 1 and all(len(names) == 1 for names in algorithms)


def facet_axes(facets: Facets) -> tuple[Figure, list[Axes]]:
    """A figure with axes for every facet, and room below them for the legend."""
    count = len(facets.facets)
    columns = _columns(count)
    rows = math.ceil(count / columns)
    figure = new_figure((4.0 if columns == 1 else 2.5 * rows) + 0.2 * len(facets.names) + 0.6)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True, sharex=True).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    for axes, facet in zip(grid, facets.facets, strict=False):
        axes.set_title(textwrap.shorten(facet.title, 76 // columns, placeholder="…"))
        tidy(axes)
    if count < len(grid):
        # Ticks that the facets below would have had.
        for axes in grid[count - columns : count]:
            axes.xaxis.set_tick_params(labelbottom=True)
    return figure, list(grid[:count])


def _columns(count: int) -> int:
    return 1 if count == 1 else 2 if count <= 4 else 3


def label_outer(axes: list[Axes], x: str, y: str) -> None:
    """Name the axes of the facets at the left and at the bottom."""
    columns = _columns(len(axes))
    for number, one in enumerate(axes):
        if number % columns == 0:
            one.set_ylabel(y)
        if number >= len(axes) - columns:
            one.set_xlabel(x if columns < 3 else textwrap.fill(x, 28))
