"""Dividing groups among the panels of a picture, so that the lines of a panel can be told apart."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from dpeer.report.curves import Measure, mean_of
from dpeer.report.groups import Group, Grouped, short

LINES = 8
"""The most lines in a panel."""

_PANELS = 12


@dataclass(frozen=True)
class Line:
    """One group in a panel: its look and its name there."""

    group: Group
    style: int
    name: str


@dataclass(frozen=True)
class Panel:
    """Lines that are drawn together, and what they have in common."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Arranged:
    """All panels of a picture.

    Attributes:
        panels: The panels; a look means the same in all of them.
        remark: What was left out; empty if nothing was.
    """

    panels: tuple[Panel, ...]
    remark: str = ""

    @property
    def names(self) -> dict[int, str]:
        """The legend's name of each style."""
        return {line.style: line.name for panel in self.panels for line in panel.lines}

    @property
    def crowded(self) -> bool:
        """Whether bands would lie on one another."""
        return max(len(panel.lines) for panel in self.panels) > 3


def arrange(grouped: Grouped, measure: Measure) -> Arranged:
    """Arrange few groups in one panel, more in panels by a setting or two; where that is not enough, only the best."""
    groups = grouped.groups
    if len(groups) <= LINES:
        return Arranged((Panel("", tuple(Line(group, group.number - 1, group.name) for group in groups)),))
    divided = [panels for count in (1, 2) for keys in combinations(grouped.naming, count)
               if (panels := _divide(grouped, keys))]  # fmt: skip
    if divided:
        # Few panels of many lines compare more; algorithms are what one compares most.
        return Arranged(min(divided, key=lambda panels: (_apart(panels), len(panels))))
    ranked = sorted(groups, key=lambda group: _worth(group, measure), reverse=True)[:LINES]
    lines = tuple(Line(group, style, group.name) for style, group in enumerate(ranked))
    remark = f"The {LINES} of {len(groups)} groups with the best {measure.name}; the table has all."
    return Arranged((Panel("", lines),), remark)


def _divide(grouped: Grouped, keys: tuple[str, ...]) -> tuple[Panel, ...] | None:
    """Panels for the settings' values; None if there are too many, or too many lines in them."""
    titles: dict[str, list[Group]] = {}
    styles: dict[str, int] = {}
    others = tuple(key for key in grouped.naming if key not in keys)
    for group in grouped.groups:
        titles.setdefault(short({key: group.values[key] for key in keys}), []).append(group)
        styles.setdefault(_name(group, others), len(styles))
    if not 1 < len(titles) <= _PANELS or not 1 < len(styles) <= LINES:
        return None
    panels = [
        Panel(title, tuple(Line(group, styles[_name(group, others)], _name(group, others)) for group in inside))
        for title, inside in titles.items()
    ]
    # The same look twice in a panel: a label or a folder sets them apart, which no setting does.
    if any(len({line.style for line in panel.lines}) < len(panel.lines) for panel in panels):
        return None
    return tuple(panels)


def _name(group: Group, keys: tuple[str, ...]) -> str:
    seeds = f" ({len(group.runs)} seeds)" if len(group.runs) > 1 else ""
    return (short({key: group.values[key] for key in keys}) or "all") + seeds


def _apart(panels: tuple[Panel, ...]) -> bool:
    """Whether an algorithm's runs are in one panel each, where they cannot be compared with another's."""
    algorithms = [{str(line.group.runs[0].settings.get("algorithm")) for line in panel.lines} for panel in panels]
    return len(set.union(*algorithms)) > 1 and all(len(names) == 1 for names in algorithms)


def _worth(group: Group, measure: Measure) -> float:
    found = mean_of(group, measure.key)
    return float("-inf") if not found else fmean(found) if measure.most_is_best else -fmean(found)
